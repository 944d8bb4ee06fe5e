/** The panel "When did this change?": the story of the pixels of a rectangle, as a strip of small pictures. */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { changedInWords, text } from "./text.js";

/**
 * Return the panel's content before there is a rectangle.
 * @param {import("./layer-view.js").LayerView} view
 * @param {(corners: import("./projection.js").Place[]) => void} tell of the rectangle between two corners
 * @returns {HTMLElement}
 */
export function pixelsQuestion(view, tell) {
  const corner = (/** @type {number} */ n) => element("input", {
    type: "text", id: `corner-${n}`, autocomplete: "off", spellcheck: "false",
    oninput: (event) => /** @type {HTMLInputElement} */ (event.target).setCustomValidity(""),
  });
  const fields = [corner(1), corner(2)];
  return element("form", {
    class: "pixels-question",
    onsubmit: (event) => {
      event.preventDefault();
      const corners = fields.map((field) => view.placeOf(field.value));
      const wrong = corners.indexOf(null);
      if (wrong >= 0) {
        fields[wrong].setCustomValidity(text(view.coordinates.wrong));
        fields[wrong].reportValidity();
      } else {
        tell(corners.filter((corner) => corner !== null));
      }
    },
  },
  element("p", {}, text("pixelsDraw")),
  element("p", {}, element("label", {}, text("pixelsFirst"), " ", fields[0])),
  element("p", {}, element("label", {}, text("pixelsSecond"), " ", fields[1])),
  element("p", {}, element("button", { type: "submit" }, text("pixelsTell"))));
}

/**
 * @param {import("./layer-view.js").LayerView} view
 * @param {import("./api.js").Ground} ground
 * @param {object} actions
 * @param {(day: string) => void} actions.show
 * @param {(before: string, day: string) => void} actions.compare
 * @param {() => void} actions.again another rectangle
 * @param {AbortSignal} signal ends the story
 * @returns {HTMLElement}
 */
export function pixelsPanel(view, ground, actions, signal) {
  const { outline, layer } = view;
  const sum = element("p", { role: "status" }, text("pixelsLooking"));
  const strip = element("ol", { class: "story", reversed: true });
  /** @type {Map<string, HTMLElement>} */
  const marks = new Map();
  api.pixels(outline.name, layer.name, ground, (line) => {
    if ("day" in line) {
      const mark = element("span", { class: "share" });
      mark.textContent = line.empty ? text("storyGone") : marks.size === 0 ? text("pixelsAppeared")
        : changedInWords(line.share);
      marks.set(line.day, mark);
      strip.prepend(chapter(outline.name, layer.name, ground, line, mark, actions));
    } else if ("error" in line) {
      sum.textContent = text("failed", { message: line.error });
    } else {
      sum.textContent = line.since === null ? text("storyNothing")
        : text(line.changes === 1 ? "pixelsSumOne" : "pixelsSum", {
          n: line.changes - 1, versions: line.versions, day: dayInWords(line.since, "long"),
        });
      for (const day of line.same_before) marks.get(day)?.append(` · ${text("pixelsAsToday")}`);
    }
  }, signal).catch((error) => {
    if (!signal.aborted) sum.textContent = text("failed", { message: error.message });
  });
  return element("div", { class: "pixels-panel" },
    element("p", { class: "actions" }, element("button", { type: "button", onclick: actions.again }, text("pixelsAgain"))),
    sum, strip);
}

/**
 * @param {string} map @param {string} layer @param {api.Ground} ground @param {api.PixelChapter} line
 * @param {HTMLElement} mark
 * @param {{show: (day: string) => void, compare: (before: string, day: string) => void}} actions
 */
function chapter(map, layer, ground, { day, before, share }, mark, actions) {
  const picture = element("img", {
    class: "thumbnail", src: api.groundAddress(map, layer, day, ground), loading: "lazy", width: 96, height: 96,
    alt: text("pixelsPicture", { day: dayInWords(day) }),
  });
  return element("li", { "data-day": day },
    element("button", { type: "button", class: "plain", title: text("storyShow"), onclick: () => actions.show(day) }, picture),
    element("div", {},
      element("strong", {}, dayInWords(day, "long")),
      element("p", {}, mark),
      element("p", { class: "actions" },
        element("button", { type: "button", onclick: () => actions.show(day) }, text("storyShow")),
        share === 1 && mark.textContent === text("pixelsAppeared") ? null : element("button", {
          type: "button", onclick: () => actions.compare(before, day),
        }, text("storyCompare")))));
}
