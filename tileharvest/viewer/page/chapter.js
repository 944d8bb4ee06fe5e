/** One day in the story of a place: its picture, what changed, and the buttons that show it on the map. */
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { text } from "./text.js";

/**
 * @typedef {{show: (day: string) => void, compare: (before: string, day: string) => void}} Actions
 */

/**
 * @param {string} day @param {string | null} before the day that it can be compared with
 * @param {HTMLElement} picture @param {(Node | string)[]} words
 * @param {Actions} actions
 */
export function chapter(day, before, picture, words, { show, compare }) {
  const button = (/** @type {string} */ key, /** @type {() => void} */ onclick) =>
    element("button", { type: "button", onclick }, text(key));
  return element("li", { "data-day": day },
    element("button", { type: "button", class: "plain", title: text("storyShow"), onclick: () => show(day) }, picture),
    element("div", {},
      element("strong", {}, dayInWords(day, "long")),
      element("p", {}, ...words),
      element("p", { class: "actions" }, button("storyShow", () => show(day)),
        before === null ? null : button("storyCompare", () => compare(before, day)))));
}
