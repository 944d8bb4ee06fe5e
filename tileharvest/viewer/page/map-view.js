/**
 * The map on the screen: the only module that knows Leaflet.
 *
 * Leaflet's coordinates are grid units here (lat = y, up; lng = x), and its zoom is ours: 0 is the deepest level, -1
 * the next coarser one, and 1 the deepest level enlarged. From zoom to zoom everything grows by the layer's factor.
 */
import "./leaflet/leaflet.js";
import { areaOf, groundOf, tileAtCell, widthOf } from "./grid.js";

/** @type {any} Leaflet's minified file is not a module, and has no types. */
const L = /** @type {any} */ (globalThis).L;

/**
 * @typedef {import("./api.js").Tile} Tile
 * @typedef {import("./api.js").Area} Area
 * @typedef {import("./api.js").Size} Size
 * @typedef {{x: number, y: number, zoom: number}} Position centre of the screen in grid units
 * @typedef {(tile: Tile) => Promise<string | null | undefined>} Pictures the address of a tile's picture, or
 *   null or undefined where there is none
 * @typedef {(tile: Tile, canvas: HTMLCanvasElement) => Promise<void>} Drawing draws a tile's square; the
 *   canvas is empty
 * @typedef {{pictures: Pictures | null, other: Pictures | null, drawing: Drawing | null}} Scene what the panes
 *   show of one moment; null: nothing
 */

/** How far the deepest level can be enlarged. */
const MOST_ENLARGED = 4;
const DOUBLE_CLICK = 250; // Milliseconds in which a second click makes a double click.
const FRINGE = 0.001; // Of a tile: what of it must be on the screen so that it counts as seen.
/** The least pixels of the screen for a pixel of the page with which tiles of the next deeper zoom are shown. */
const FINE_SCREEN = 1.5;
const DIGITS = 2; // Behind the point of a zoom that nobody has zoomed to.
const MARGIN = 8; // Pixels around what is fitted into the screen.
/** Pixels by which pictures that are scaled reach below the next ones: their outermost ones may be half transparent. */
const OVERLAP = 2;
const DOT = 20; // Pixels between a marked point and the edge of the screen.

export class MapView {
  /**
   * @param {HTMLElement} container
   * @param {{tileSize: Size, factor: number, coarsest: number, deepest: number, isSquare: boolean,
   *   zoomIn: string, zoomOut: string, whole: string, showWhole: () => void}} options `coarsest` and `deepest` are the zooms of tiles that there ever
   *   were; with `isSquare` there is nothing but four tiles of the coarsest zoom and what
   *   lies below them
   */
  constructor(container, { tileSize, factor, coarsest, deepest, isSquare, zoomIn, zoomOut, whole, showWhole }) {
    this.container = container;
    this.tileSize = tileSize;
    this.factor = factor;
    this.coarsest = coarsest;
    this.deepest = deepest;
    this.isSquare = isSquare;
    /**
     * How many levels deeper the pictures are than the zoom. If tiles nest by more than two, a level is many more
     * pictures.
     */
    this.finest = factor === 2 && window.devicePixelRatio >= FINE_SCREEN ? 1 : 0;
    /** Finer pictures are four times the bytes, so the first ones are coarse. */
    this.finer = 0;
    /** @type {any[]} layers of coarse pictures, which stay until the finer ones are loaded */
    this.coarse = [];
    // Whole zooms of five times the size would be too far apart.
    const step = factor === 2 ? 1 : 0.5;
    // A square can be seen whole. Other layers may have many coarsest tiles, which can be made smaller to an eighth,
    // or to a fifth if tiles nest by five.
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
      // A wheel's notch is one level, because each level has its own pictures.
      wheelPxPerZoomLevel: 120,
      fadeAnimation: !calm,
      zoomAnimation: !calm,
      markerZoomAnimation: !calm,
      inertia: !calm,
    });
    const buttons = L.control.zoom({ zoomInTitle: zoomIn, zoomOutTitle: zoomOut }).addTo(this.map).getContainer();
    buttons.append(wholeButton(whole, showWhole));
    // The pictures of two days are blended with each other and with nothing else.
    const days = this.map.createPane("days");
    days.style.zIndex = "200";
    for (const [place, name] of ["pictures", "other", "drawing", "heat"].entries()) {
      this.map.createPane(name, place < 2 ? days : undefined).style.zIndex = String(200 + 50 * place);
    }
    this.map.getPane("heat").classList.add("heat-pane");
    /** @type {() => void} called when the filling of squares begins, when all are filled, and when some have failed */
    this.onFilling = () => {};
    this.busy = 0;
    /** @type {(() => void)[]} */
    this.waiting = [];
    /** @type {Record<string, any>} the layers by the name of their pane */
    this.layers = {};
    this.split = null;
    this.round = null;
    this.map.on("move zoom viewreset zoomend resize", () => this.#clip());
    this.map.on("zoomend", () => container.classList.toggle("enlarged", this.map.getZoom() > deepest - this.finest));
    /** Whether the map is getting another size, which moves its middle by part of a pixel. */
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
   * Load the pictures that the panes are to show. Meanwhile the panes keep their present pictures. In a pane without
   * pictures the squares are filled one by one. A picture that is on the screen is not loaded again.
   * @param {Scene} scene
   * @param {AbortSignal} signal ends the loading when nobody waits for it any more
   * @returns {Promise<() => void>} shows all of it in one go
   */
  async load(scene, signal) {
    const isFirst = !this.isDrawn;
    for (const [pane, layer] of Object.entries(this.layers)) {
      if (pane === "heat" || layer.options.finer === this.finer) continue;
      this.coarse.push(layer);
      delete this.layers[pane];
      this.#layer(pane, nothing, kindOf(pane));
    }
    const puts = await Promise.all(Object.entries(scene).map(([pane, source]) => {
      const kind = kindOf(pane);
      if (isFirst || source === null) return () => this.#layer(pane, source, kind);
      if (!(pane in this.layers)) this.#layer(pane, nothing, kind);
      return this.layers[pane].load(source, signal);
    }));
    return () => {
      for (const put of puts) put();
      for (const layer of this.coarse.splice(0)) layer.remove();
    };
  }

  /** @param {Drawing | null} drawing drawn above everything else; its squares are filled one by one */
  set heat(drawing) {
    this.#layer("heat", null, drawingLayer);
    this.#layer("heat", drawing, drawingLayer);
  }

  /** @returns {Tile[]} those whose pictures are shown */
  get tiles() {
    return Object.entries(this.layers).filter(([pane]) => pane !== "heat").slice(0, 1)
      .flatMap(([, layer]) => [...layer.squares.values()]);
  }

  /** Whether there are pictures on the screen, or would be if there were any at this place. */
  get isDrawn() {
    return Object.keys(this.layers).some((pane) => pane !== "heat");
  }

  /** @returns {Tile[]} those of `tiles` of which a part is in view */
  get tilesInView() {
    const { west, south, east, north } = this.ground;
    return this.tiles.map((tile) => ({ tile, ground: groundOf(tile, this.factor) }))
      .filter(({ ground }) => ground.west < east && ground.east > west && ground.south < north && ground.north > south)
      .map(({ tile }) => tile);
  }

  /** The number of squares that lack their pictures. */
  get failed() {
    return Object.values(this.layers).reduce((sum, layer) => sum + layer.failed.size, 0);
  }

  /** Try once more to fill the squares that failed. */
  retry() {
    for (const layer of Object.values(this.layers)) layer.retry();
  }

  /** @param {number | null} share of the width, from the left, in which `other` is seen; null: everywhere */
  set swipe(share) {
    this.split = share;
    this.#clip();
  }

  /** @param {{x: number, y: number, radius: number} | null} lens in pixels, inside of which only `other` is seen */
  set lens(lens) {
    this.round = lens;
    this.#clip();
  }

  /**
   * @param {number | null} share of `other`, 0 to 1, in each pixel's colour and opacity; `pictures` has the rest.
   *   null: both are seen as they are
   */
  set blend(share) {
    this.container.classList.toggle("blended", share !== null);
    this.map.getPane("other").style.opacity = String(share ?? 1);
    this.map.getPane("pictures").style.opacity = String(share === null ? 1 : 1 - share);
  }

  /** @returns {Position} */
  get position() {
    const centre = this.map.getCenter();
    return { x: centre.lng, y: centre.lat, zoom: Number(this.map.getZoom().toFixed(DIGITS)) };
  }

  /** @param {Position} position */
  set position({ x, y, zoom }) {
    this.#between(() => this.map.setView([y, x], zoom, { animate: false }));
  }

  /** Show these tiles as large as they fit into the screen. @param {Tile[]} tiles none: the whole map */
  fit(tiles) {
    const bounds = L.latLngBounds(tiles.length > 0 ? [] : this.#middle);
    for (const tile of tiles) {
      const { west, east, south, north } = groundOf(tile, this.factor);
      bounds.extend([[south, west], [north, east]]);
    }
    const options = { animate: false, maxZoom: this.deepest, padding: [MARGIN, MARGIN] };
    this.#between(() => this.map.fitBounds(bounds, options));
  }

  /** Do something that may lead to a zoom between the whole ones. @param {() => void} act */
  #between(act) {
    const { zoomSnap } = this.map.options;
    this.map.options.zoomSnap = 10 ** -DIGITS;
    act();
    this.map.options.zoomSnap = zoomSnap;
  }

  /** The four tiles of the coarsest zoom that meet in the middle of the grid. */
  get #middle() {
    const edge = widthOf(this.coarsest, this.factor);
    return [[-edge, -edge], [edge, edge]];
  }

  /** The zoom of the tiles that are shown, which is the screen's zoom if there are tiles of it. */
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
   * @param {(position: Position | null) => void} listener called when the map has moved or zoomed, and with null if
   *   it has only got another size and its middle stays
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

  /** Couple this map with another, so that each moves with the other. @param {MapView} other */
  accompany(other) {
    let moving = false;
    const follow = (/** @type {MapView} */ from, /** @type {MapView} */ to) => () => {
      if (moving || to.container.hidden) return;
      moving = true;
      to.position = from.position;
      moving = false;
    };
    const there = follow(this, other);
    this.map.on("move zoomend", there);
    other.map.on("move zoomend", follow(other, this));
    other.map.on("unload", () => this.map.off("move zoomend", there));
  }

  /**
   * Frame a tile and mark a point in it, or mark nothing.
   * @param {Tile | null} tile @param {{x: number, y: number}} [point] in grid units
   */
  mark(tile, point) {
    this.frame?.remove();
    this.dot?.remove();
    if (tile === null) return;
    this.frameGround(groundOf(tile, this.factor));
    if (point === undefined) return;
    this.dot = L.circleMarker([point.y, point.x], { className: "point-mark", radius: 6, interactive: false }).addTo(this.map);
  }

  /** Bring a point into view. @param {{x: number, y: number}} point in grid units */
  reveal({ x, y }) {
    this.map.invalidateSize();
    this.map.panInside([y, x], { padding: [DOT, DOT], animate: false });
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
   * Let a person draw a rectangle with the mouse or a finger. Until it is drawn the map cannot be dragged.
   * @param {AbortSignal} signal ends the drawing
   * @returns {Promise<import("./api.js").Ground | null>} null if the person gave up
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
        // The click that follows is not meant for a tile.
        const swallow = (/** @type {Event} */ click) => click.stopPropagation();
        container.addEventListener("click", swallow, { capture: true, once: true });
        // No click follows a finger.
        setTimeout(() => container.removeEventListener("click", swallow, { capture: true }), DOUBLE_CLICK);
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
    } else if (!layer) {
      const finer = pane === "heat" ? 0 : this.finer;
      this.layers[pane] = new kind(source, (/** @type {number} */ change) => this.count(change), {
        pane,
        finer,
        pixels: this.tileSize,
        tileSize: L.point(this.tileSize.width, this.tileSize.height).divideBy(this.factor ** finer),
        minZoom: this.farthest,
        maxZoom: this.map.getMaxZoom(),
        minNativeZoom: this.coarsest - finer,
        maxNativeZoom: this.deepest - finer,
        bounds: this.isSquare ? this.#middle : undefined,
        noWrap: true,
        keepBuffer: 1,
      }).addTo(this.map);
    }
  }

  /** @param {number} change in the number of squares, or of other things, that are being loaded */
  count(change) {
    this.busy += change;
    if (this.busy === 0) for (const go of this.waiting.splice(0)) go();
    this.container.setAttribute("aria-busy", String(this.busy > 0));
    this.onFilling();
  }

  /** With a border or a lens, each of the two panes is seen on its own side only: pictures can be transparent. */
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
    if (this.round === null) return;
    const { x, y, radius } = this.round;
    const half = (/** @type {number} */ width) => `a${radius} ${radius} 0 1 0 ${width} 0`;
    const circle = `M${from.x + x - radius} ${from.y + y}${half(2 * radius)}${half(-2 * radius)}Z`;
    this.map.getPane("other").style.clipPath = `path("${circle}")`;
    this.map.getPane("pictures").style.clipPath =
      `path(evenodd, "M${from.x} ${from.y}H${to.x}V${to.y}H${from.x}Z${circle}")`;
  }
}

/** @param {string} pane @returns {any} the kind of layer in it */
function kindOf(pane) {
  return pane === "drawing" ? drawingLayer : pictureLayer;
}

/** @param {string} words @param {() => void} showWhole @returns {HTMLElement} */
function wholeButton(words, showWhole) {
  const button = document.createElement("a");
  Object.assign(button, { className: "whole", href: "#", title: words, role: "button", ariaLabel: words });
  L.DomEvent.disableClickPropagation(button);
  L.DomEvent.on(button, "click", L.DomEvent.stop).on(button, "click", showWhole);
  return button;
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

/** The source of a pane that exists only to load its squares. @type {Pictures & Drawing} */
const nothing = async () => undefined;

/**
 * A layer whose squares are filled from a source that can be replaced. Each kind of layer defines what a square is,
 * how it is filled, and how it is emptied. `made` returns the function that fills a square after everything is
 * loaded.
 */
const squareLayer = L.GridLayer.extend({
  initialize(/** @type {any} */ source, /** @type {(change: number) => void} */ count, /** @type {any} */ options) {
    L.GridLayer.prototype.initialize.call(this, options);
    this.source = source;
    this.count = count;
    /** @type {Map<HTMLElement, Tile>} */
    this.squares = new Map();
    /** @type {Set<HTMLElement>} squares that lack their pictures */
    this.failed = new Set();
    this.on("tileunload", (/** @type {any} */ event) => {
      this.squares.delete(event.tile);
      this.failed.delete(event.tile);
    });
  },

  _setZoomTransform(/** @type {any} */ level, /** @type {any} */ center, /** @type {number} */ zoom) {
    L.GridLayer.prototype._setZoomTransform.call(this, level, center, zoom);
    level.scale = this._map.getZoomScale(zoom, level.zoom);
    for (const square of Object.values(this._tiles)) if (square.coords.z === level.zoom) this.fit(square, level);
  },

  _addTile(/** @type {any} */ coords, /** @type {any} */ container) {
    L.GridLayer.prototype._addTile.call(this, coords, container);
    this.fit(this._tiles[this._tileCoordsToKey(coords)], this._level);
  },

  /**
   * Put a square on whole pixels of the page, whatever the scale of its level: through edges between pixels the
   * background would shine. Where it may still end within a pixel of the screen, it reaches below the next one.
   */
  fit(/** @type {any} */ { el: square, coords }, /** @type {any} */ { origin, scale }) {
    const size = this.getTileSize();
    const corner = (/** @type {any} */ cell) => cell.scaleBy(size).subtract(origin).multiplyBy(scale).round();
    const start = corner(coords);
    const { x: width, y: height } = corner(coords.add([1, 1])).subtract(start);
    const isWhole = [size.x * scale, size.y * scale, window.devicePixelRatio].every(Number.isInteger);
    const overlap = isWhole || this.isFaint ? 0 : OVERLAP;
    L.DomUtil.setTransform(square, start.divideBy(scale), 1 / scale);
    Object.assign(square.style, { width: `${width + overlap}px`, height: `${height + overlap}px` });
  },

  createTile(/** @type {any} */ coords, /** @type {(error: unknown, square: HTMLElement) => void} */ done) {
    const square = this.square();
    this.squares.set(square, tileAtCell(coords.x, coords.y, coords.z + this.options.finer));
    this.filled(square).then(() => done(null, square));
    return square;
  },

  /** Load all squares from another source. @returns {Promise<() => void>} shows them all */
  async load(/** @type {any} */ source, /** @type {AbortSignal} */ signal) {
    /** @type {Map<HTMLElement, () => void>} */
    const puts = new Map();
    // Meanwhile the map may be moved, and squares come and go.
    const missing = () => [...this.squares.keys()].filter((square) => !puts.has(square));
    for (let squares = missing(); squares.length > 0 && !signal.aborted; squares = missing()) {
      await Promise.all(squares.map(async (square) => puts.set(square, await this.loaded(square, source, signal))));
    }
    return () => {
      this.source = source;
      for (const square of this.squares.keys()) {
        const put = puts.get(square);
        if (put) {
          put();
        } else {
          // This square came while other panes were still being loaded.
          this.empty(square);
          this.filled(square);
        }
      }
    };
  },

  retry() {
    for (const square of [...this.failed]) this.filled(square);
  },

  async filled(/** @type {HTMLElement} */ square) {
    const source = this.source;
    this.count(1);
    const put = await this.loaded(square, source);
    // The answer of an older source, or for a square that has left the screen, comes too late.
    if (this.source === source && this.squares.has(square)) put();
    this.count(-1);
  },

  /** @returns {Promise<() => void>} fills the square, or shows that it cannot be filled */
  async loaded(/** @type {HTMLElement} */ square, /** @type {any} */ source, /** @type {AbortSignal} */ signal) {
    const show = (/** @type {boolean} */ whole, /** @type {() => void} */ put) => () => {
      square.classList.toggle("failed", !whole);
      if (whole) this.failed.delete(square);
      else this.failed.add(square);
      put();
    };
    try {
      return show(true, await this.made(square, this.squares.get(square), source, signal));
    } catch (error) {
      if (!signal?.aborted) console.error(error);
      return show(false, () => this.empty(square));
    }
  },
});

const pictureLayer = squareLayer.extend({
  square() {
    return L.DomUtil.create("div", "picture");
  },

  async made(
    /** @type {HTMLElement} */ square, /** @type {Tile} */ tile, /** @type {Pictures} */ source,
    /** @type {AbortSignal | undefined} */ signal,
  ) {
    const address = (await source(tile)) ?? "";
    /** @type {Element | null} pictures that are on the screen need no loading */
    let picture = square.dataset.address === address ? square.firstElementChild : null;
    if (address !== "" && picture === null && !signal?.aborted) picture = await loadedPicture(address, signal);
    return () => {
      if (picture !== square.firstElementChild) square.replaceChildren(...(picture ? [picture] : []));
      square.dataset.address = address;
    };
  },

  empty(/** @type {HTMLElement} */ square) {
    square.replaceChildren();
    delete square.dataset.address;
  },
});

/**
 * @param {string} address @param {AbortSignal} [signal] ends the loading, which then fails
 * @param {"high" | "low"} [fetchPriority]
 * @returns {Promise<HTMLImageElement>} a picture that can be shown without delay
 */
export async function loadedPicture(address, signal, fetchPriority = "high") {
  const picture = Object.assign(new Image(), { alt: "", fetchPriority });
  picture.src = address;
  let giveUp = () => {};
  const givenUp = new Promise((_, reject) => {
    giveUp = () => {
      picture.removeAttribute("src");
      reject(signal?.reason);
    };
  });
  signal?.addEventListener("abort", giveUp);
  try {
    await Promise.race([picture.decode(), givenUp]);
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
  return picture;
}

const drawingLayer = squareLayer.extend({
  /** Drawings may let the ground shine through: where two overlap, a line would be seen. */
  isFaint: true,

  square() {
    const canvas = /** @type {HTMLCanvasElement} */ (L.DomUtil.create("canvas", "drawing"));
    canvas.width = this.options.pixels.width;
    canvas.height = this.options.pixels.height;
    return canvas;
  },

  async made(/** @type {HTMLCanvasElement} */ square, /** @type {Tile} */ tile, /** @type {Drawing} */ source) {
    const sheet = document.createElement("canvas");
    sheet.width = square.width;
    sheet.height = square.height;
    await source(tile, sheet);
    return () => {
      this.empty(square);
      square.getContext("2d")?.drawImage(sheet, 0, 0);
    };
  },

  empty(/** @type {HTMLCanvasElement} */ square) {
    square.getContext("2d")?.clearRect(0, 0, square.width, square.height);
  },
});
