/**
 * A layer of a map on the screen, with its pictures of one day or two, its heat, and the place of the screen in it.
 */
import * as api from "./api.js";
import { coordinatesOf } from "./coordinates.js";
import { dayInWords } from "./days.js";
import { announceFailure, part } from "./dom.js";
import { areaOf, finestArea, groundOf, tileAt } from "./grid.js";
import { MapView, loadedPicture } from "./map-view.js";
import { atUsualHeight, blockAt, gridToWorld, worldToGrid } from "./projection.js";
import { PromiseCache } from "./promise-cache.js";
import { text } from "./text.js";
import { TileAddresses, isStored } from "./tile-addresses.js";

const FITTED_LEVEL = 5; // 32 x 32 tiles over the whole map: how finely its outline is looked at.
const MOST_COUNTED = 32; // Tiles along an edge: the server refuses areas of more than 1,024.
const LEVELS_AROUND = 3; // A tile so many levels up is about as large as a screen.
const OUTSIDE = 4; // Levels beyond the coarsest from which tiles are looked for where no edge is known.
const COARSEST_SEARCHED = -25; // Beyond it the server would refuse the names of 32 x 32 tiles.
const MOST_AHEAD = 300; // Pictures, a hundred kilobytes of memory each while they are packed.
/** Pictures that are loaded ahead at once: few, so that a person who goes elsewhere finds connections and a link free. */
const AHEAD_AT_ONCE = 2;
/** Milliseconds for which a day may still load after another one is chosen. Then it is given up. */
const SLOW = 150;

/**
 * @typedef {import("./outline.js").Outline} Outline
 * @typedef {import("./state.js").Look} Look
 * @typedef {{x: number, z: number, zoom: number}} Place in the world's coordinates
 */

export class LayerView {
  /**
   * @param {Outline} outline @param {api.Layer} layer
   * @param {object} actions
   * @param {(place: Place | null) => void} actions.moved null if the page has moved the map, not a person
   * @param {(place: {x: number, y: number} | null) => void} actions.pointed in grid units
   * @param {(tile: api.Tile, point: {x: number, y: number}) => void} actions.chosen
   * @param {() => void} actions.whole a person wants to see the whole map
   * @param {() => void} actions.filling pictures begin to be loaded, or all are, or some cannot be
   */
  constructor(outline, layer, actions) {
    this.outline = outline;
    this.actions = actions;
    this.layer = layer;
    this.renderer = outline.links;
    this.addresses = new TileAddresses(outline.name, layer.name);
    /** The day on the screen, on which the layer's size and direction depend. */
    this.day = outline.lastDay;
    this.screen = this.#open("map");
    /** @type {MapView | null} */
    this.second = null;
    /** @type {Promise<void>} of the days that were asked for last */
    this.showing = Promise.resolve();
    /** Of the days that are being loaded. */
    this.loading = new AbortController();
    /** Pictures of days that are near, by address. */
    this.ahead = new PromiseCache(MOST_AHEAD);
    /** @type {import("./map-view.js").Drawing | null} */
    this.heat = null;
    /** @type {import("./state.js").Range | null} whose heat was asked for last */
    this.heated = null;
    /** While the page itself moves the map. */
    this.moving = false;
    this.screen.onMove((position) => {
      actions.moved(this.moving || position === null ? null : this.#placeAt(position));
    });
  }

  /** The maps on the screen: one, or two halves. */
  get screens() {
    return this.second === null ? [this.screen] : [this.screen, this.second];
  }

  /** Whether any picture in view is still being loaded. */
  get isFilling() {
    return this.screens.some(({ busy }) => busy > 0);
  }

  /** How many pictures in view could not be loaded. */
  get failed() {
    return this.screens.reduce((sum, screen) => sum + screen.failed, 0);
  }

  /** Try once more to load the pictures that failed. */
  retry() {
    for (const screen of this.screens) screen.retry();
  }

  /** Frame a tile and mark a point in it, or nothing. @param {api.Tile | null} tile @param {{x: number, y: number}} [point] */
  mark(tile, point) {
    this.marked = tile;
    for (const screen of this.screens) screen.mark(tile, point);
  }

  /** Bring a point into view. @param {{x: number, y: number}} point in grid units */
  reveal(point) {
    for (const screen of this.screens) screen.reveal(point);
  }

  get description() {
    return this.outline.description(this.layer.name, this.day);
  }

  /** The way in which this layer's places are written. */
  get coordinates() {
    return coordinatesOf(this.renderer, this.description);
  }

  /** @param {Outline} outline @returns {boolean} whether the zooms on the screen are still those of the layer */
  fits(outline) {
    const { coarsest, deepest } = this.screen;
    return coarsest === outline.coarsest(this.layer.name) && deepest === outline.deepest(this.layer.name);
  }

  /** @param {Outline} outline of the same map, which has been harvested again and `fits` */
  renew(outline) {
    this.outline = outline;
    this.layer = outline.layer(this.layer.name);
  }

  /** @returns {api.Area} the area in view, or its middle if the whole has too many tiles to be counted */
  get countable() {
    const area = this.screen.area;
    const width = 2 ** (1 - area.zoom);
    const cut = (/** @type {number} */ from, /** @type {number} */ to) => {
      const surplus = Math.max(0, (to - from) / width + 1 - MOST_COUNTED);
      const left = Math.floor(surplus / 2);
      return [from + left * width, to - (surplus - left) * width];
    };
    const [xFrom, xTo] = cut(area.xFrom, area.xTo);
    const [yFrom, yTo] = cut(area.yFrom, area.yTo);
    return { zoom: area.zoom, xFrom, xTo, yFrom, yTo };
  }

  /** Behind another page the map has no size, and nothing is in view. */
  get visible() {
    return this.screen.container.clientWidth > 0;
  }

  /** @returns {Promise<void>} resolves when all pictures in view are on the screen */
  async idle() {
    await this.showing;
    await Promise.all(this.screens.map((screen) => screen.idle()));
  }

  /** What is in the middle of the screen. @returns {Place} */
  get place() {
    return this.#placeAt(this.screen.position);
  }

  /** @param {Look} look if x or z is null nobody has chosen a place, and the whole layer is shown */
  moveTo({ x, z, zoom }) {
    if (x === null || z === null) {
      this.#fit();
      return;
    }
    this.moving = true;
    this.screen.position = { ...worldToGrid({ x, z }, this.description), zoom: zoom ?? this.screen.position.zoom };
    this.moving = false;
  }

  /**
   * Load all pictures in view, and then show them at once, so that no picture ever stands under the date of another
   * day. If several days are chosen one after the other, those that load fast are shown, and the last one.
   * @param {string} day @param {Pick<Look, "mode" | "other">} look
   * @param {() => void} shown called in the moment in which the day is shown
   */
  showDays(day, look, shown) {
    const before = this.showing;
    const latest = new AbortController();
    this.latest = latest;
    this.showing = (async () => {
      const { screens } = this;
      for (const screen of screens) screen.count(1);
      try {
        await Promise.race([before, new Promise((resolve) => setTimeout(resolve, SLOW))]);
        if (this.latest === latest) await this.#load(latest, day, look, shown);
      } finally {
        for (const screen of screens) screen.count(-1);
      }
    })();
    if (this.screen.finer < this.screen.finest) this.#sharpen(latest, () => this.showDays(day, look, shown));
  }

  /**
   * Show the same pictures one level finer, after the coarse ones have been seen.
   * @param {AbortController} latest @param {() => void} show
   */
  async #sharpen(latest, show) {
    await this.idle();
    const { screens } = this;
    for (const screen of screens) screen.count(1);
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    if (this.latest === latest) {
      for (const screen of this.screens) screen.finer = screen.finest;
      show();
    }
    for (const screen of screens) screen.count(-1);
  }

  /**
   * @param {AbortController} loading @param {string} day @param {Pick<Look, "mode" | "other">} look
   * @param {() => void} shown
   */
  async #load(loading, day, { mode, other }, shown) {
    this.loading.abort();
    this.loading = loading;
    const { screen, second } = this;
    const now = this.#pictures(day);
    const before = mode === "one" || other === null ? null : this.#pictures(other);
    const alone = { other: null, drawing: null };
    let drawing = null;
    if (mode === "difference" && before) {
      const difference = await import("./difference.js").catch(announceFailure);
      if (!difference) return;
      drawing = difference.differenceDrawing(before, now);
    }
    const puts = await Promise.all([
      screen.load({
        pictures: mode === "difference" ? null : mode === "side" && before ? before : now,
        other: mode === "difference" || mode === "side" ? null : before,
        drawing,
      }, loading.signal),
      mode === "side" ? second?.load({ pictures: now, ...alone }, loading.signal) : undefined,
    ]);
    if (loading.signal.aborted) return;
    this.day = day;
    for (const put of puts) put?.();
    this.#showSecond(mode === "side", now);
    // This is the colour that the map's own page shows behind its tiles.
    part("map-page").style.setProperty("--behind", this.description.background ?? "");
    const words = (/** @type {string} */ of) => text("mapLabel", { day: dayInWords(of, "long") });
    screen.container.setAttribute("aria-label", words(mode === "side" && other !== null ? other : day));
    this.second?.container.setAttribute("aria-label", words(day));
    this.#showSpawn();
    shown();
  }

  /**
   * Load the pictures of other days, so that a step to them shows them at once. Composed pictures are left out,
   * because they cost the server much.
   * @param {string[]} days the likeliest first
   */
  async lookAhead(days) {
    const { loading } = this;
    for (const day of days) {
      const { tiles } = this.screen;
      if (!api.isAtHand(this.layer.name, this.outline.harvested(day), tiles)) continue;
      const pictures = this.#pictures(day);
      const addresses = await Promise.all(tiles.map(pictures)).catch(() => []);
      const stored = addresses.filter(isStored).map(String);
      const keep = (/** @type {string} */ address) =>
        this.ahead.get(address, () => loadedPicture(address, undefined, "low"));
      while (stored.length > 0) {
        if (loading !== this.loading || !this.screen.container.isConnected) return;
        await Promise.allSettled(stored.splice(0, AHEAD_AT_ONCE).map(keep));
      }
    }
  }

  /** @param {import("./state.js").Mode} mode @param {import("./compare.js").CompareTools} tools */
  arrange(mode, tools) {
    this.screen.swipe = mode === "swipe" ? tools.share : null;
    this.screen.lens = mode === "lens" ? tools.lens : null;
    this.screen.blend = mode === "onion" ? tools.opacity : null;
  }

  /** @param {import("./state.js").Range | null} range */
  async showHeat(range) {
    if (range === null && this.heated === null) return;
    this.heated = range;
    const { screen } = this;
    screen.count(1);
    const loaded = await import("./heat.js").catch(announceFailure);
    if (loaded && this.heated === range) {
      const heat = range && new loaded.Heat(this.outline.name, this.layer.name, range, this.description.factor);
      this.heat = heat && range && heat.drawing(loaded.daysBetween(this.outline, range));
      for (const each of this.screens) each.heat = this.heat;
    }
    screen.count(-1);
  }

  /**
   * Return the middle of a tile, in words, and in the form of addresses.
   * @param {api.Tile} tile @returns {{words: string, place: Place}}
   */
  locate(tile) {
    const { west, east, south, north } = groundOf(tile, this.description.factor);
    const middle = { x: (west + east) / 2, y: (south + north) / 2 };
    const { coordinates } = this;
    return { words: coordinates.inWords(middle), place: { ...coordinates.named(middle), zoom: tile.zoom } };
  }

  /**
   * @param {string} typed a place as people write it, or the name of a place
   * @returns {{x: number, z: number} | null} null: it is none
   */
  placeOf(typed) {
    const name = typed.trim().toLowerCase();
    const { spawn } = this.description;
    if (spawn !== null && ["spawn", text("spawn").toLowerCase()].includes(name)) {
      const [x, y, z] = spawn;
      return atUsualHeight({ x, y, z }, this.description);
    }
    return this.coordinates.typed(typed);
  }

  /**
   * @param {{x: number, y: number}} point in grid units @param {number} zoom
   * @returns {Promise<boolean>} whether there is a picture at the point or beside it, on the day on the screen or on
   *   the newest day
   */
  async shows({ x, y }, zoom) {
    const { coarsest, deepest, factor } = this.screen;
    const around = Math.min(deepest, Math.round(zoom)) - (factor === 2 ? LEVELS_AROUND : 1);
    const tile = tileAt(x, y, Math.max(coarsest, around), factor);
    const found = await Promise.all(
      [this.day, this.outline.lastDay].map((day) => this.addresses.address(tile, day)),
    );
    return found.some((address) => address !== null && address !== undefined);
  }

  /**
   * @param {string[]} days
   * @returns {Promise<boolean>} whether nothing in view has a picture on any of the days. What could not be asked may
   *   have one
   */
  async isEmpty(days) {
    const { tilesInView: tiles, isDrawn } = this.screen;
    const found = await Promise.all(days.flatMap((day) => tiles.map(this.#pictures(day)))).catch(() => ["?"]);
    return isDrawn && found.every((address) => address === null || address === undefined);
  }

  /** @param {string} day @returns {Promise<string | null>} the address of the picture in the middle of the screen */
  async pictureInMiddle(day) {
    const { position: { x, y }, tileZoom, factor } = this.screen;
    return (await this.addresses.address(tileAt(x, y, tileZoom, factor), day)) ?? null;
  }

  /**
   * Return a point of the grid, in words, and in the form of addresses.
   * @param {import("./projection.js").GridPoint} point
   */
  spot(point) {
    const { coordinates } = this;
    return { words: coordinates.inWords(point), place: coordinates.named(point) };
  }

  /** The address of the middle of the screen on the map's own page. @returns {string | null} null: it has none */
  get live() {
    const { outline, layer, description } = this;
    return outline.live === null ? null : this.renderer.writeLink(outline.live, {
      ...blockAt(this.screen.position, description), zoom: this.screen.position.zoom,
      depth: description.depth, layer: layer.name, world: description.world,
    });
  }

  remove() {
    this.loading.abort();
    this.latest = null;
    for (const screen of this.screens) screen.remove();
  }

  /** @param {string} day @returns {import("./map-view.js").Pictures} of the harvest that the day shows */
  #pictures(day) {
    const harvested = this.outline.harvested(day);
    return (tile) => this.addresses.address(tile, harvested);
  }

  /** @param {import("./map-view.js").Position} position @returns {Place} */
  #placeAt(position) {
    const { x, z } = gridToWorld(position, this.description);
    const parts = 10 ** this.coordinates.digits;
    const rounded = (/** @type {number} */ value) => Math.round(value * parts) / parts;
    return { x: rounded(x), z: rounded(z), zoom: position.zoom };
  }

  /** @param {string} id of the container. Leaflet needs one that no other map was in */
  #open(id) {
    const old = part(id);
    const container = old.cloneNode(false);
    container.removeAttribute("style");
    container.className = this.renderer.inDegrees?.(this.description) ? "map" : "map crisp";
    container.tabIndex = 0;
    old.replaceWith(container);
    const screen = new MapView(container, {
      tileSize: api.tileSizeOf(this.description),
      factor: this.description.factor,
      coarsest: this.outline.coarsest(this.layer.name),
      deepest: this.outline.deepest(this.layer.name),
      isSquare: this.renderer.isSquare === true && this.outline.isComposed,
      zoomIn: text("zoomIn"),
      zoomOut: text("zoomOut"),
      whole: text("wholeMap"),
      showWhole: this.actions.whole,
    });
    screen.onFilling = this.actions.filling;
    screen.onPointer(this.actions.pointed);
    screen.onChoice(({ x, y }) => {
      this.actions.chosen(tileAt(x, y, screen.tileZoom, this.description.factor), { x, y });
    });
    return screen;
  }

  async #fit() {
    const { screen } = this;
    this.moving = true;
    screen.fit([]);
    this.moving = false;
    screen.count(1);
    const tiles = await this.#found().catch(() => []);
    screen.count(-1);
    if (!screen.container.isConnected) return;
    screen.fit(tiles);
    const begun = this.outline.coarsestAtFirst(this.layer.name);
    if (screen.tileZoom < begun) screen.position = { ...screen.position, zoom: begun - 0.5 };
  }

  /** @returns {Promise<api.Tile[]>} tiles around all that is there */
  async #found() {
    const told = await api.reach(this.outline.name, this.layer.name);
    return told ?? (this.screen.isSquare ? this.#inSquare() : this.#searched());
  }

  /** @returns {Promise<api.Tile[]>} the tiles of the square of 32 x 32 that are there */
  #inSquare() {
    const { coarsest, deepest } = this.screen;
    const zoom = Math.min(deepest, coarsest + FITTED_LEVEL - 1);
    const last = 2 ** (zoom - coarsest) - 1;
    return this.#there(areaOf(zoom, { column: -last - 1, row: -last - 1 }, { column: last, row: last }));
  }

  /**
   * Find how far a layer reaches if the server does not say it: look around the origin, first from far out, and then
   * ever closer.
   * @returns {Promise<api.Tile[]>}
   */
  async #searched() {
    const { coarsest, deepest, factor } = this.screen;
    // Only pictures of two by two tiles are composed, so a layer that nests otherwise has no zoom beyond its
    // coarsest.
    const start = factor === 2 ? Math.min(coarsest, Math.max(COARSEST_SEARCHED, coarsest - OUTSIDE)) : coarsest;
    const half = MOST_COUNTED / 2;
    let area = areaOf(start, { column: -half, row: -half }, { column: half - 1, row: half - 1 });
    for (;;) {
      const tiles = await this.#there(area);
      if (tiles.length === 0) return [];
      const closer = finestArea(tiles, factor, deepest, MOST_COUNTED);
      if (closer.zoom === area.zoom) return tiles;
      area = closer;
    }
  }

  /** @param {api.Area} area @returns {Promise<api.Tile[]>} its tiles that are there on the last day */
  async #there(area) {
    const there = await api.view(this.outline.name, this.layer.name, this.outline.lastDay, area);
    return [...there]
      .filter(([, address]) => address !== null)
      .map(([place]) => place.split("_").map(Number))
      .map(([x, y]) => ({ zoom: area.zoom, x, y }));
  }

  /** @param {boolean} shown @param {import("./map-view.js").Pictures} pictures which it shows when it opens */
  #showSecond(shown, pictures) {
    part("stage").classList.toggle("halves", shown);
    if (!shown) {
      part("second-map").hidden = true;
      this.second?.remove();
      this.second = null;
    } else if (this.second === null) {
      part("second-map").hidden = false;
      this.second = this.#open("second-map");
      this.second.position = this.screen.position;
      this.second.finer = this.screen.finer;
      this.screen.accompany(this.second);
      this.second.load({ pictures, other: null, drawing: null }, this.loading.signal).then((put) => put());
      this.second.heat = this.heat;
      this.second.mark(this.marked ?? null);
    }
  }

  #showSpawn() {
    const { spawn } = this.description;
    const [x, y, z] = spawn ?? [0, 0, 0];
    const pin = spawn && { ...worldToGrid({ x, y, z }, this.description), label: text("spawn") };
    for (const screen of this.screens) screen.pin(pin);
  }
}
