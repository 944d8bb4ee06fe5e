/**
 * The map on the screen: the only module that knows Leaflet.
 *
 * Leaflet's coordinates are grid units here (lat = y, up; lng = x), and its zoom is ours: 0 is the deepest
 * level, -1 the next coarser, 1 that one enlarged. From zoom to zoom everything grows by the layer's factor.
 */
import * as Leaflet from "./leaflet/leaflet-src.esm.js";
import { areaOf, groundOf, tileAtCell, widthOf } from "./grid.js";

/** @type {any} Leaflet ships no types. */
const L = Leaflet;

/**
 * @typedef {import("./api.js").Tile} Tile
 * @typedef {import("./api.js").Area} Area
 * @typedef {import("./api.js").Size} Size
 * @typedef {{x: number, y: number, zoom: number}} Position centre of the screen in grid units
 * @typedef {(tile: Tile) => Promise<string | null | undefined>} Pictures the address of a tile's picture, or
 *   null or undefined where there is none
 * @typedef {(tile: Tile, canvas: HTMLCanvasElement) => Promise<void>} Drawing draws a tile's square; the
 *   canvas is empty
 */

/** How far the deepest level can be enlarged. */
const MOST_ENLARGED = 4;
const DOUBLE_CLICK = 250; // Milliseconds in which a second click makes a double click.
const FRINGE = 0.001; // Of a tile: what of it must be on the screen so that it counts as seen.

export class MapView {
  /**
   * @param {HTMLElement} container
   * @param {{tileSize: Size, factor: number, coarsest: number, deepest: number, isSquare: boolean,
   *   zoomIn: string, zoomOut: string}} options `coarsest` and `deepest` are the zooms of tiles that there ever
   *   were; with `isSquare` there is nothing but four tiles of the coarsest zoom and what
   *   lies below them
   */
  constructor(container, { tileSize, factor, coarsest, deepest, isSquare, zoomIn, zoomOut }) {
    this.container = container;
    this.tileSize = tileSize;
    this.factor = factor;
    this.coarsest = coarsest;
    this.deepest = deepest;
    this.isSquare = isSquare;
    // Whole zooms of five times the size would be too far apart.
    const step = factor === 2 ? 1 : 0.5;
    // A square is seen whole. Of another layer the coarsest tiles can be many: until they are an eighth as large,
    // or a fifth where the next zoom is that.
    this.farthest = coarsest - (factor === 2 && !isSquare ? 3 : 1);
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.map = L.map(container, {
      crs: L.extend({}, L.CRS.Simple, {
        transformation: new L.Transformation(tileSize.width / 2, 0, -tileSize.height / 2, 0),
        scale: (/** @type {number} */ zoom) => factor ** zoom,
        zoom: (/** @type {number} */ scale) => Math.log(scale) / Math.log(factor),
      }),
      minZoom: this.farthest,
      maxZoom: deepest + Math.max(1, Math.floor(Math.log(MOST_ENLARGED) / Math.log(factor))),
      zoomSnap: step,
      zoomDelta: step,
      attributionControl: false,
      zoomControl: false,
      center: [0, 0],
      zoom: coarsest - 1,
      // A wheel's notch is one level, as each level is another set of pictures.
      wheelPxPerZoomLevel: 120,
      fadeAnimation: !calm,
      zoomAnimation: !calm,
      markerZoomAnimation: !calm,
      inertia: !calm,
    });
    L.control.zoom({ zoomInTitle: zoomIn, zoomOutTitle: zoomOut }).addTo(this.map);
    for (const [name, height] of Object.entries({ pictures: 200, other: 250, drawing: 300, heat: 350 })) {
      this.map.createPane(name).style.zIndex = String(height);
    }
    this.map.getPane("heat").classList.add("heat-pane");
    this.busy = 0;
    /** @type {(() => void)[]} */
    this.waiting = [];
    /** @type {Record<string, any>} the layers by the name of their pane */
    this.layers = {};
    this.split = null;
    this.map.on("move zoom viewreset zoomend resize", () => this.#clip());
    this.map.on("zoomend", () => container.classList.toggle("enlarged", this.map.getZoom() > deepest));
    /** While the map gets another size, which moves its middle by part of a pixel. */
    this.resizing = false;
    this.watcher = new ResizeObserver(() => {
      this.resizing = true;
      this.map.invalidateSize();
      this.resizing = false;
    });
    this.watcher.observe(container);
    container.setAttribute("aria-busy", "false");
  }

  /**
   * Show pictures in a pane, or none. Where an address stays the same nothing is loaded again, and a tile's
   * old picture stays until the new one is there.
   * @param {"pictures" | "other"} pane
   * @param {Pictures | null} pictures
   */
  show(pane, pictures) {
    this.#layer(pane, pictures, pictureLayer);
  }

  /**
   * @param {"drawing" | "heat"} pane
   * @param {Drawing | null} drawing
   */
  draw(pane, drawing) {
    this.#layer(pane, drawing, drawingLayer);
  }

  /** @param {number | null} share of the width, from the left, in which `other` is seen; null: everywhere */
  set swipe(share) {
    this.split = share;
    this.#clip();
  }

  /** @param {number} opacity of `other`, 0 to 1 */
  set blend(opacity) {
    this.map.getPane("other").style.opacity = String(opacity);
  }

  /** @returns {Position} */
  get position() {
    const centre = this.map.getCenter();
    return { x: centre.lng, y: centre.lat, zoom: this.map.getZoom() };
  }

  /** @param {Position} position */
  set position({ x, y, zoom }) {
    this.map.setView([y, x], zoom, { animate: false });
  }

  /** Show these tiles as large as they fit. @param {Tile[]} tiles none: the whole map */
  fit(tiles) {
    const bounds = L.latLngBounds(tiles.length > 0 ? [] : this.#middle);
    for (const tile of tiles) {
      const { west, east, south, north } = groundOf(tile, this.factor);
      bounds.extend([[south, west], [north, east]]);
    }
    this.map.fitBounds(bounds, { animate: false, maxZoom: this.deepest });
  }

  /** The four tiles of the coarsest zoom that meet in the middle of the grid. */
  get #middle() {
    const edge = widthOf(this.coarsest, this.factor);
    return [[-edge, -edge], [edge, edge]];
  }

  /** The zoom of the tiles that are shown: that of the screen, where tiles of it exist. */
  get tileZoom() {
    return Math.min(this.deepest, Math.max(this.coarsest, Math.round(this.map.getZoom()))) + 0;
  }

  /** @returns {Area} the tiles in view; of a square those in it only */
  get area() {
    const bounds = this.map.getBounds();
    const zoom = this.tileZoom;
    const width = widthOf(zoom, this.factor);
    const last = this.isSquare ? this.factor ** (zoom - this.coarsest) - 1 : Infinity;
    const within = (/** @type {number} */ cell) => Math.min(last, Math.max(-last - 1, cell));
    return areaOf(zoom, {
      column: within(Math.floor(bounds.getWest() / width + FRINGE)),
      row: within(Math.floor(-bounds.getNorth() / width + FRINGE)),
    }, {
      column: within(Math.ceil(bounds.getEast() / width - FRINGE) - 1),
      row: within(Math.ceil(-bounds.getSouth() / width - FRINGE) - 1),
    });
  }

  /**
   * @param {(position: Position | null) => void} listener called when the map has moved or zoomed; null: it has
   *   only got another size, and what it showed in its middle stays there
   */
  onMove(listener) {
    this.map.on("moveend", () => listener(this.resizing ? null : this.position));
  }

  /** @param {(place: {x: number, y: number} | null) => void} listener the pointer in grid units, null: left */
  onPointer(listener) {
    this.map.on("mousemove", (/** @type {any} */ event) => {
      listener({ x: event.latlng.lng, y: event.latlng.lat });
    });
    this.map.on("mouseout", () => listener(null));
  }

  /**
   * @param {(place: {x: number, y: number}) => void} listener called for a click that does not become a
   *   double click, which zooms, and for the Enter key with the middle of the screen
   */
  onChoice(listener) {
    let timer = 0;
    this.map.on("click", (/** @type {any} */ event) => {
      clearTimeout(timer);
      timer = window.setTimeout(() => listener({ x: event.latlng.lng, y: event.latlng.lat }), DOUBLE_CLICK);
    });
    this.map.on("dblclick", () => clearTimeout(timer));
    this.container.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target === this.container) listener(this.position);
    });
  }

  /** Move with another map, and it with this one. @param {MapView} other */
  accompany(other) {
    let moving = false;
    const follow = (/** @type {MapView} */ from, /** @type {MapView} */ to) => () => {
      if (moving || to.container.hidden) return;
      moving = true;
      to.position = from.position;
      moving = false;
    };
    this.map.on("move zoomend", follow(this, other));
    other.map.on("move zoomend", follow(other, this));
  }

  /** Frame a tile, or none. @param {Tile | null} tile */
  mark(tile) {
    this.frame?.remove();
    if (tile === null) return;
    const { west, east, south, north } = groundOf(tile, this.factor);
    this.frame = L.rectangle([[south, west], [north, east]], {
      className: "tile-mark", fill: false, interactive: false,
    }).addTo(this.map);
  }

  /** Frame a rectangle instead of a tile. @param {import("./api.js").Ground} ground */
  frameGround({ west, south, east, north }) {
    this.frame?.remove();
    this.frame = L.rectangle([[south, west], [north, east]], {
      className: "tile-mark", fill: false, interactive: false,
    }).addTo(this.map);
  }

  /** @returns {import("./api.js").Ground} what is in view */
  get ground() {
    const bounds = this.map.getBounds();
    return { west: bounds.getWest(), south: bounds.getSouth(), east: bounds.getEast(), north: bounds.getNorth() };
  }

  /**
   * @param {import("./api.js").Ground} ground
   * @returns {number} the zoom at which all of it is in view; the deepest at most
   */
  zoomFor({ west, south, east, north }) {
    return Math.min(this.deepest, this.map.getBoundsZoom([[south, west], [north, east]]));
  }

  /**
   * Let a person draw a rectangle, with the mouse or a finger. Until then the map cannot be pulled.
   * @param {AbortSignal} signal nobody is to draw any more
   * @returns {Promise<import("./api.js").Ground | null>} null: it was given up
   */
  askGround(signal) {
    const { container, map } = this;
    const over = new AbortController();
    return new Promise((resolve) => {
      /** @type {any} */
      let start = null;
      const pointOf = (/** @type {PointerEvent} */ event) => map.mouseEventToLatLng(event);
      const end = (/** @type {import("./api.js").Ground | null} */ ground) => {
        over.abort();
        container.classList.remove("asking");
        map.dragging.enable();
        map.doubleClickZoom.enable();
        resolve(ground);
      };
      if (signal.aborted) {
        resolve(null);
        return;
      }
      container.classList.add("asking");
      map.dragging.disable();
      map.doubleClickZoom.disable();
      const listen = (/** @type {string} */ name, /** @type {(event: any) => void} */ listener) => {
        container.addEventListener(name, listener, { capture: true, signal: over.signal });
      };
      signal.addEventListener("abort", () => end(null), { signal: over.signal });
      listen("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary || event.target.closest(".leaflet-control")) return;
        event.stopPropagation();
        container.setPointerCapture(event.pointerId);
        start = pointOf(event);
      });
      listen("pointermove", (event) => {
        if (start !== null && event.isPrimary) this.frameGround(between(start, pointOf(event)));
      });
      listen("pointercancel", () => {
        start = null;
      });
      listen("pointerup", (event) => {
        if (start === null || !event.isPrimary) return;
        // The click that follows is none on a tile.
        container.addEventListener("click", (click) => click.stopPropagation(), { capture: true, once: true });
        end(between(start, pointOf(event)));
      });
    });
  }

  /** @param {{x: number, y: number, label: string} | null} place in grid units */
  pin(place) {
    this.needle?.remove();
    if (place === null) return;
    const icon = document.createElement("span");
    icon.className = "pin";
    this.needle = L.marker([place.y, place.x], {
      icon: L.divIcon({ html: icon, className: "pin-place", iconSize: [28, 36], iconAnchor: [14, 34] }),
      title: place.label, alt: place.label, keyboard: false,
    }).addTo(this.map);
    const drawn = this.needle.getElement();
    drawn.setAttribute("role", "img");
    drawn.setAttribute("aria-label", place.label);
  }

  /** @returns {Promise<void>} resolves when every square is filled */
  idle() {
    return new Promise((resolve) => {
      if (this.busy === 0) resolve();
      else this.waiting.push(resolve);
    });
  }

  /** Take the map off its container, which can then hold another. */
  remove() {
    this.watcher.disconnect();
    this.map.remove();
  }

  /**
   * @param {string} pane @param {any} source @param {any} kind of layer
   */
  #layer(pane, source, kind) {
    const layer = this.layers[pane];
    if (source === null) {
      layer?.remove();
      delete this.layers[pane];
    } else if (layer) {
      layer.renew(source);
    } else {
      this.layers[pane] = new kind(source, (/** @type {number} */ change) => this.#count(change), {
        pane,
        tileSize: L.point(this.tileSize.width, this.tileSize.height),
        minZoom: this.farthest,
        maxZoom: this.map.getMaxZoom(),
        minNativeZoom: this.coarsest,
        maxNativeZoom: this.deepest,
        bounds: this.isSquare ? this.#middle : undefined,
        noWrap: true,
        keepBuffer: 1,
      }).addTo(this.map);
    }
  }

  /** @param {number} change in the number of squares that are being filled */
  #count(change) {
    this.busy += change;
    if (this.busy === 0) for (const go of this.waiting.splice(0)) go();
    this.container.setAttribute("aria-busy", String(this.busy > 0));
  }

  /** With a border, each of the two panes is seen on its own side of it only: pictures can be transparent. */
  #clip() {
    const size = this.map.getSize();
    const from = this.map.containerPointToLayerPoint([0, 0]);
    const to = this.map.containerPointToLayerPoint(size);
    const border = from.x + size.x * (this.split ?? 0);
    for (const [name, left, right] of [["other", from.x, border], ["pictures", border, to.x]]) {
      const corners = [[left, from.y], [right, from.y], [right, to.y], [left, to.y]];
      this.map.getPane(name).style.clipPath =
        this.split === null ? "" : `polygon(${corners.map(([x, y]) => `${x}px ${y}px`).join(", ")})`;
    }
  }
}

/**
 * @param {{lat: number, lng: number}} one @param {{lat: number, lng: number}} other opposite corners
 * @returns {import("./api.js").Ground}
 */
function between(one, other) {
  return {
    west: Math.min(one.lng, other.lng), south: Math.min(one.lat, other.lat),
    east: Math.max(one.lng, other.lng), north: Math.max(one.lat, other.lat),
  };
}

/** A layer whose squares are filled from a source that can be replaced. */
const squareLayer = L.GridLayer.extend({
  initialize(/** @type {any} */ source, /** @type {(change: number) => void} */ count, /** @type {any} */ options) {
    L.GridLayer.prototype.initialize.call(this, options);
    this.source = source;
    this.count = count;
    /** @type {Map<HTMLElement, Tile>} */
    this.squares = new Map();
    this.on("tileunload", (/** @type {any} */ event) => this.squares.delete(event.tile));
  },

  createTile(/** @type {any} */ coords, /** @type {(error: unknown, square: HTMLElement) => void} */ done) {
    const square = this.square();
    this.squares.set(square, tileAtCell(coords.x, coords.y, coords.z));
    this.filled(square).then(() => done(null, square), (/** @type {unknown} */ error) => done(error, square));
    return square;
  },

  renew(/** @type {any} */ source) {
    this.source = source;
    for (const square of this.squares.keys()) this.filled(square).catch(() => {});
  },

  async filled(/** @type {HTMLElement} */ square) {
    const source = this.source;
    this.count(1);
    try {
      // What was asked of an older source, or for a square that has left the screen, comes too late.
      await this.fill(square, this.squares.get(square), source,
        () => this.source === source && this.squares.has(square));
      square.classList.remove("failed");
    } catch (error) {
      square.classList.add("failed");
      console.error(error);
      throw error;
    } finally {
      this.count(-1);
    }
  },
});

const pictureLayer = squareLayer.extend({
  square() {
    return L.DomUtil.create("div", "picture");
  },

  async fill(
    /** @type {HTMLElement} */ square, /** @type {Tile} */ tile, /** @type {Pictures} */ source,
    /** @type {() => boolean} */ wanted,
  ) {
    const address = (await source(tile)) ?? "";
    if (!wanted() || square.dataset.address === address) return;
    if (address === "") {
      square.replaceChildren();
    } else {
      const picture = new Image();
      picture.alt = "";
      picture.src = address;
      await picture.decode();
      if (!wanted()) return;
      square.replaceChildren(picture);
    }
    square.dataset.address = address;
  },
});

const drawingLayer = squareLayer.extend({
  square() {
    const canvas = /** @type {HTMLCanvasElement} */ (L.DomUtil.create("canvas", "drawing"));
    canvas.width = this.options.tileSize.x;
    canvas.height = this.options.tileSize.y;
    return canvas;
  },

  async fill(
    /** @type {HTMLCanvasElement} */ square, /** @type {Tile} */ tile, /** @type {Drawing} */ source,
    /** @type {() => boolean} */ wanted,
  ) {
    const sheet = document.createElement("canvas");
    sheet.width = square.width;
    sheet.height = square.height;
    await source(tile, sheet);
    if (!wanted()) return;
    const context = /** @type {CanvasRenderingContext2D} */ (square.getContext("2d"));
    context.clearRect(0, 0, square.width, square.height);
    context.drawImage(sheet, 0, 0);
  },
});
