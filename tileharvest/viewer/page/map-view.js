/**
 * The map on the screen: the only module that knows Leaflet.
 *
 * Leaflet's coordinates are grid units here (lat = y, up; lng = x), and its zoom is ours: 0 is the deepest
 * level, -1 the next coarser, 1 that one enlarged by two.
 */
import * as Leaflet from "./leaflet/leaflet-src.esm.js";
import { tileAtCell } from "./grid.js";

/** @type {any} Leaflet ships no types. */
const L = Leaflet;

/**
 * @typedef {import("./api.js").Tile} Tile
 * @typedef {import("./api.js").Area} Area
 * @typedef {{x: number, y: number, zoom: number}} Position centre of the screen in grid units
 * @typedef {(tile: Tile) => Promise<string | null | undefined>} Pictures the address of a tile's picture, or
 *   null or undefined where there is none
 * @typedef {(tile: Tile, canvas: HTMLCanvasElement) => Promise<void>} Drawing draws a tile's square; the
 *   canvas is empty
 */

/** How far the deepest level can be enlarged, in zooms. */
export const MOST_ENLARGED = 2;
const DOUBLE_CLICK = 250; // Milliseconds in which a second click makes a double click.
const FRINGE = 0.001; // Of a tile: what of it must be on the screen so that it counts as seen.

export class MapView {
  /**
   * @param {HTMLElement} container
   * @param {{tileSize: number, depth: number, zoomIn: string, zoomOut: string}} options `depth` is the
   *   deepest that the map ever was; `tileSize` in pixels
   */
  constructor(container, { tileSize, depth, zoomIn, zoomOut }) {
    this.container = container;
    this.tileSize = tileSize;
    this.depth = depth;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.map = L.map(container, {
      crs: L.extend({}, L.CRS.Simple, {
        transformation: new L.Transformation(tileSize / 2, 0, -tileSize / 2, 0),
      }),
      minZoom: -depth,
      maxZoom: MOST_ENLARGED,
      attributionControl: false,
      zoomControl: false,
      center: [0, 0],
      zoom: -depth,
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
    const edge = 2 ** this.depth;
    const bounds = tiles.length > 0 ? L.latLngBounds([]) : L.latLngBounds([[-edge, -edge], [edge, edge]]);
    for (const { x, y, zoom } of tiles) {
      const reach = 2 ** -zoom;
      bounds.extend([[y - reach, x - reach], [y + reach, x + reach]]);
    }
    this.map.fitBounds(bounds, { animate: false, maxZoom: 0 });
  }

  /** The zoom of the tiles that are shown: that of the screen, where tiles of it exist. */
  get tileZoom() {
    return Math.min(0, Math.max(1 - this.depth, Math.round(this.map.getZoom())));
  }

  /** @returns {Area} the tiles in view, those of the map's square only */
  get area() {
    const bounds = this.map.getBounds();
    const zoom = this.tileZoom;
    const width = 2 ** (1 - zoom);
    const last = 2 ** (this.depth + zoom - 1) - 1;
    const within = (/** @type {number} */ cell) => Math.min(last, Math.max(-last - 1, cell));
    const first = tileAtCell(
      within(Math.floor(bounds.getWest() / width + FRINGE)),
      within(Math.floor(-bounds.getNorth() / width + FRINGE)),
      zoom,
    );
    const end = tileAtCell(
      within(Math.ceil(bounds.getEast() / width - FRINGE) - 1),
      within(Math.ceil(-bounds.getSouth() / width - FRINGE) - 1),
      zoom,
    );
    return { zoom, xFrom: first.x, xTo: end.x, yFrom: end.y, yTo: first.y };
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
    const reach = 2 ** -tile.zoom;
    this.frame = L.rectangle([[tile.y - reach, tile.x - reach], [tile.y + reach, tile.x + reach]], {
      className: "tile-mark", fill: false, interactive: false,
    }).addTo(this.map);
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
      const edge = 2 ** this.depth;
      this.layers[pane] = new kind(source, (/** @type {number} */ change) => this.#count(change), {
        pane,
        tileSize: this.tileSize,
        minZoom: -this.depth,
        maxZoom: MOST_ENLARGED,
        minNativeZoom: 1 - this.depth,
        maxNativeZoom: 0,
        bounds: [[-edge, -edge], [edge, edge]],
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
    canvas.width = this.options.tileSize;
    canvas.height = this.options.tileSize;
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
