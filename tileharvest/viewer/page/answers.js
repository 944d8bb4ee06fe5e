/** The panels that answer "what is new?" and "when did this change?". */
import { announceFailure, part } from "./dom.js";
import { widthOf } from "./grid.js";
import { writeHash } from "./permalink.js";
import { worldToGrid } from "./projection.js";
import { remember, remembered, text } from "./text.js";

const REMEMBERED = "tileharvest.seen.";
const LEAST = 8; // Pixels along an edge: the server answers for no smaller rectangle, but on a canvas of one zoom.
const MOST_TILES = 16; // Nor of one that lies on more.
const MOST_PIXELS = 1 << 20;

/**
 * @typedef {import("./layer-view.js").LayerView} LayerView
 * @typedef {import("./api.js").Ground} Ground
 */

export class Answers {
  /**
   * @param {import("./state.js").State} state @param {import("./panel.js").Panel} panel
   * @param {() => LayerView | null} view what is on the screen
   */
  constructor(state, panel, view) {
    this.state = state;
    this.panel = panel;
    this.view = view;
    this.inView = false;
    /** @type {string | null} the newest day of the map that this person saw at an earlier visit */
    this.before = null;
    /** Ends the drawing of a rectangle, or the story that is being told. */
    this.asking = new AbortController();
    part("events-switch").addEventListener("click", () => {
      this.state.set({ news: this.before === null ? "month" : "visit" });
    });
    part("pixels-switch").addEventListener("click", () => this.#askPixels());
  }

  /** A map has been opened. @param {LayerView} view */
  opened({ outline }) {
    this.before = seenBefore(outline.name, outline.lastDay);
  }

  /** @param {Set<string>} changed of the state */
  follow(changed) {
    if (changed.has("layer") || changed.has("heat")) this.asking.abort();
    const { news } = this.state.look;
    const inView = this.inView && ["x", "z", "zoom"].some((key) => changed.has(key));
    if (changed.has("news") || inView || (news === "day" && changed.has("day"))) this.#showEvents();
  }

  /** Write all words again, in another language. */
  speak() {
    this.#showEvents();
  }

  /** The panel has been closed, or will show something else: remove its marks from the map. */
  closed() {
    this.asking.abort();
    this.view()?.mark(null);
    this.state.set({ news: null });
  }

  /** Open or close the panel of what is new, as the state says. */
  async #showEvents() {
    if (this.state.look.news === null) {
      this.panel.close("events");
      return;
    }
    const loaded = await import("./events-panel.js").catch(announceFailure);
    if (!loaded) {
      this.state.set({ news: null });
      return;
    }
    const view = this.view();
    const { look } = this.state;
    if (view === null || look.news === null) return;
    this.asking.abort();
    view.mark(null);
    const { inView, before } = this;
    // A person who has never seen the map has no last visit.
    const span = look.news === "visit" && before === null ? "month" : look.news;
    const day = view.outline.within(look.day ?? view.outline.lastDay);
    this.panel.open("events", text("eventsTitle"), loaded.eventsPanel(view, { span, inView, day, before }, (change) => {
      this.inView = change.inView ?? this.inView;
      if (change.span) this.state.set({ news: change.span });
      else this.#showEvents();
    }, ({ first, last, before: other, ground: [west, south, east, north], area }) => {
      const { place } = view.spot({ x: (west + east) / 2, y: (south + north) / 2 });
      const zoom = view.screen.zoomFor({ west, south, east, north }) ?? area.zoom;
      return writeHash({ ...look, ...place, zoom, day: last, other, mode: "swipe", heat: null });
    }));
  }

  async #askPixels() {
    const { pixelsQuestion } = await import("./pixels-panel.js");
    const view = this.view();
    if (view === null) return;
    this.state.set({ news: null });
    const { signal } = this.#anew();
    view.mark(null);
    this.panel.open("pixels", text("pixelsTitle"), pixelsQuestion(view, (corners) => {
      this.#tellPixels(view, groundBetween(corners, view));
    }));
    this.#awaitDrawn(view, signal);
  }

  /** @param {LayerView} view @param {AbortSignal} signal */
  async #awaitDrawn(view, signal) {
    const drawn = await view.screen.askGround(signal);
    if (drawn !== null && this.view() === view) this.#tellPixels(view, drawn);
  }

  /** @param {LayerView} view @param {Ground} wanted */
  async #tellPixels(view, wanted) {
    const { pixelsPanel } = await import("./pixels-panel.js");
    const ground = largeEnough(wanted, view);
    const { signal } = this.#anew();
    view.screen.frameGround(ground);
    if (isTooLarge(ground, view)) {
      this.panel.open("pixels", text("pixelsTitle"), text("pixelsTooLarge"));
      this.#awaitDrawn(view, signal);
      return;
    }
    this.panel.open("pixels", text("pixelsTitle"), pixelsPanel(view, ground, this.state.storyActions,
      () => this.#askPixels(), signal));
  }

  #anew() {
    this.asking.abort();
    this.asking = new AbortController();
    return this.asking;
  }
}

/**
 * @param {import("./projection.js").Place[]} corners @param {LayerView} view
 * @returns {Ground} the smallest rectangle of the picture with that of the world between two corners
 */
function groundBetween(corners, { coordinates, description }) {
  // The rectangle includes the block, or the tile, of each corner, whichever corner is named first.
  const half = { 1: 0.5, 3: 1 }[coordinates.digits] ?? 0;
  const edges = (/** @type {number[]} */ values) => [Math.min(...values) - half, Math.max(...values) + half];
  const southern = edges(corners.map(({ z }) => z));
  const points = edges(corners.map(({ x }) => x)).flatMap((x) => southern.map((z) => worldToGrid({ x, z }, description)));
  const [columns, rows] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  return {
    west: Math.min(...columns), south: Math.min(...rows), east: Math.max(...columns), north: Math.max(...rows),
  };
}

/** @param {LayerView} view @returns {{tile: number, pixel: number}} their widths in grid units */
function units({ screen, description }) {
  const tile = widthOf(screen.deepest, screen.factor);
  return { tile, pixel: tile / description.tile_size };
}

/** @param {Ground} ground @param {LayerView} view @returns {Ground} */
function largeEnough({ west, south, east, north }, view) {
  const least = (view.description.depth === 1 ? 1 : LEAST) * units(view).pixel;
  const wider = Math.max(0, least - (east - west)) / 2;
  const higher = Math.max(0, least - (north - south)) / 2;
  return { west: west - wider, south: south - higher, east: east + wider, north: north + higher };
}

/** @param {Ground} ground @param {LayerView} view */
function isTooLarge({ west, south, east, north }, view) {
  const { tile, pixel } = units(view);
  const along = (/** @type {number} */ from, /** @type {number} */ to) => Math.ceil(to / tile) - Math.floor(from / tile);
  return along(west, east) * along(south, north) > MOST_TILES
    || ((east - west) / pixel + 1) * ((north - south) / pixel + 1) > MOST_PIXELS;
}

/**
 * Remember that a person sees a map's newest day, and return the newest day that they saw before. That day stays the
 * same until there is a newer day.
 * @param {string} map @param {string} lastDay
 * @returns {string | null} null if they saw none
 */
function seenBefore(map, lastDay) {
  const { before, seen } = visit(map);
  if (seen === lastDay) return before;
  remember(REMEMBERED + map, JSON.stringify({ before: seen, seen: lastDay }));
  return seen;
}

/** @param {string} map @returns {{before: string | null, seen: string | null}} */
function visit(map) {
  try {
    const { before = null, seen = null } = JSON.parse(remembered(REMEMBERED + map) ?? "{}");
    return { before, seen };
  } catch {
    return { before: null, seen: null };
  }
}
