/**
 * What an address names that is not there, and what is shown instead. Pure.
 *
 * @typedef {import("./outline.js").Outline} Outline
 * @typedef {import("./state.js").Look} Look
 * @typedef {object} Fault
 * @property {string} key of the words that say what was not found
 * @property {Record<string, string | number>} values to fill into the words; of days and modes as the state has them
 * @property {Partial<Look>[]} offers what there is: each to be shown instead of what was not found
 */
import { MODES, MOST_ENLARGED } from "./permalink.js";

/**
 * @param {Partial<Look>} read what an address says
 * @param {Record<string, string>} unread the values that cannot be read, by their names in the address
 * @param {Outline} outline of its map
 * @returns {{look: Partial<Look>, faults: Fault[]}} what can be shown, and what was not found
 */
export function checkedLook(read, unread, outline) {
  const look = { ...read };
  /** @type {Fault[]} */
  const faults = [];
  const { firstDay, lastDay } = outline;
  const ends = firstDay === lastDay ? [firstDay] : [firstDay, lastDay];
  const add = (/** @type {string} */ key, /** @type {Record<string, string | number>} */ values, /** @type {Partial<Look>[]} */ offers) =>
    faults.push({ key, values, offers });

  if (read.layer && !outline.layers.some(({ name }) => name === read.layer)) {
    look.layer = outline.layer(null).name;
    add("linkNoLayer", { layer: read.layer, shown: look.layer }, outline.layers.map(({ name }) => ({ layer: name })));
  }
  for (const [key, name] of /** @type {["day" | "other", string][]} */ ([["day", "day"], ["other", "with"]])) {
    const day = read[key];
    const offers = ends.map((end) => ({ [key]: end }));
    if (name in unread) add("linkNoDay", { text: unread[name] }, offers);
    if (!day || outline.within(day) === day) continue;
    look[key] = outline.within(day);
    add("linkDayOutside", { day, shown: look[key] }, offers);
  }
  if ("mode" in unread) add("linkNoMode", { text: unread.mode }, MODES.map((mode) => ({ mode })));
  if (look.mode && look.mode !== "one" && !look.other) {
    const day = look.day ?? lastDay;
    const other = outline.days.findLast((each) => each < day) ?? outline.days.find((each) => each > day);
    if (other === undefined) {
      look.mode = "one";
      add("linkOneDay", {}, []);
    } else {
      look.other = other;
      // If the other day could not be read, that was said above.
      if (!("with" in unread)) add("linkNoOther", { shown: other }, []);
    }
  }
  for (const name of ["heat", "new"]) {
    if (name in unread) add("linkNoPeriod", { text: unread[name] }, []);
  }
  const lost = ["x", "z", "zoom"].filter((name) => name in unread);
  if (lost.join() === "zoom") {
    const layer = outline.layer(look.layer ?? null).name;
    const zooms = { coarsest: outline.coarsest(layer), deepest: outline.deepest(layer), enlarged: MOST_ENLARGED };
    add("linkNoZoom", { text: unread.zoom, ...zooms }, []);
    return { look, faults };
  }
  if (lost.length > 0) {
    add("linkNoPlace", { text: lost.map((name) => `${name}=${unread[name]}`).join(", ") }, []);
  }
  return { look, faults };
}
