/**
 * What the page shows, in one place.
 *
 * @typedef {"visit" | "day" | "week" | "month"} Span of what is new: since the last visit, or of the day that is shown
 * @typedef {"one" | "lens" | "swipe" | "side" | "onion" | "difference"} Mode
 * @typedef {{after: string, until: string}} Range days; what changed on `after` itself does not count
 * @typedef {object} Look
 * @property {string | null} map
 * @property {string | null} layer
 * @property {string | null} day null: the newest
 * @property {string | null} other the day compared with
 * @property {Mode} mode
 * @property {Range | null} heat
 * @property {Span | null} news of what the panel tells what is new; null: it does not
 * @property {number | null} x the world's X in the middle of the screen; null: nobody has chosen a place
 * @property {number | null} z
 * @property {number | null} zoom 0 is the deepest level
 */

/** @type {Look} */
export const NOTHING = {
  map: null, layer: null, day: null, other: null, mode: "one", heat: null, news: null, x: null, z: null, zoom: null,
};

export class State {
  constructor() {
    /** @type {Look} */
    this.look = { ...NOTHING };
    /** @type {((changed: Set<string>, look: Look) => void)[]} */
    this.listeners = [];
  }

  /** @param {(changed: Set<string>, look: Look) => void} listener called after each change */
  onChange(listener) {
    this.listeners.push(listener);
  }

  /** @param {Partial<Look>} patch */
  set(patch) {
    const before = /** @type {Record<string, unknown>} */ (this.look);
    const changed = new Set(
      Object.entries(patch)
        .filter(([key, value]) => JSON.stringify(before[key]) !== JSON.stringify(value))
        .map(([key]) => key),
    );
    if (changed.size === 0) return;
    this.look = { ...this.look, ...patch };
    for (const listener of this.listeners) listener(changed, this.look);
  }

  /** @returns {import("./chapter.js").Actions} what the buttons of a story do */
  get storyActions() {
    const compared = () => (this.look.mode === "one" ? "swipe" : this.look.mode);
    return {
      show: (day) => this.set({ day }),
      compare: (other, day) => this.set({ day, other, mode: compared() }),
    };
  }
}
