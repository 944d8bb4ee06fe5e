/** The panel "When did this change?": the story of the pixels of a rectangle, as a strip of small pictures. */
import * as api from "./api.js";
import { chapter } from "./chapter.js";
import { dayInWords } from "./days.js";
import { announce, element } from "./dom.js";
import { isCopied } from "./place-box.js";
import { gridToWorld } from "./projection.js";
import { latitudeOf } from "./renderers/xyz.js";
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
 * @param {import("./chapter.js").Actions} actions @param {() => void} again asks for another rectangle
 * @param {AbortSignal} signal ends the story
 * @returns {HTMLElement}
 */
export function pixelsPanel(view, ground, actions, again, signal) {
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
      strip.prepend(chapterOf(outline.name, layer.name, ground, line, mark, actions));
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
    element("p", { class: "actions" }, element("button", { type: "button", onclick: again }, text("pixelsAgain"))),
    sum, watchedArea(view, ground), strip);
}

/**
 * @param {import("./layer-view.js").LayerView} view @param {api.Ground} ground
 * @returns {HTMLElement | null} the command that names the rectangle as an area; null: it cannot be named
 */
function watchedArea({ outline, layer, description, renderer }, { west, south, east, north }) {
  if (!api.hasAreas || description.projection === null) return null;
  // On a map that is drawn at a slant this is all ground of which a part lies in the rectangle.
  const places = [west, east].flatMap((x) => [north, south].map((y) => gridToWorld({ x, y }, description)));
  const corners = [Math.min, Math.max].map((outermost) => {
    const [x, z] = [outermost(...places.map((place) => place.x)), outermost(...places.map((place) => place.z))];
    const written = renderer.inDegrees?.(description)
      ? [latitudeOf(z + 0.5), x + 0.5].map((value) => value.toFixed(5)) : [x, z].map(Math.round);
    return written.join(",");
  });
  const ofLayer = layer.name === outline.layers[0].name ? "" : ` --layer ${JSON.stringify(layer.name)}`;
  const command = `tileharvest areas ${outline.name} add ${JSON.stringify(text("watchName"))} ${corners.join(" ")}${ofLayer}`;
  const copy = element("button", {
    type: "button",
    onclick: async () => {
      if (await isCopied(command)) announce(copy.textContent = text("copiedCommand"));
    },
  }, text("copyCommand"));
  return element("details", { class: "watch" }, element("summary", {}, text("watchArea")),
    element("p", {}, text("watchHint")), element("pre", {}, element("code", {}, command)),
    element("p", { class: "actions" }, copy));
}

/**
 * @param {string} map @param {string} layer @param {api.Ground} ground @param {api.PixelChapter} line
 * @param {HTMLElement} mark @param {import("./chapter.js").Actions} actions
 */
function chapterOf(map, layer, ground, { day, before, share }, mark, actions) {
  const picture = element("img", {
    class: "thumbnail", src: api.groundAddress(map, layer, day, ground), loading: "lazy", width: 96, height: 96,
    alt: text("pixelsPicture", { day: dayInWords(day) }),
  });
  const isFirst = share === 1 && mark.textContent === text("pixelsAppeared");
  return chapter(day, isFirst ? null : before, picture, [mark], actions);
}
