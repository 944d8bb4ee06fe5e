/** The pages of named areas: the list of all of them, and each one's story. */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
import { element, fill } from "./dom.js";
import { brushOf, canvasOf, download, filmOf, saver } from "./film.js";
import { AREAS, areaAddress, writeHash } from "./permalink.js";
import { NOTHING } from "./state.js";
import { language, text } from "./text.js";

const MOST_SHOWN = 60; // Days of a story, each with a picture of two days.
const NARROWEST = 640; // Pixels along a film's upper edge: smaller pictures are enlarged.

/**
 * The film of the area that is shown. Its button and its words stay when the page looks again.
 * @type {{key: string, days: string[], block: HTMLElement, making: AbortController} | null}
 */
let film = null;

/** @param {api.MapSummary[]} maps @param {string} [missing] an area that a link names and that does not exist */
export async function drawAreas(maps, missing) {
  const sections = await Promise.all(maps.filter(({ areas }) => areas > 0).map(async ({ name }) => {
    const items = (await api.areas(name)).map((area) => element("li", {},
      element("a", { href: areaAddress(name, area.name) }, area.name),
      ` ${text("areaCorners", { layer: area.layer, corners: corners(area) })}`));
    return element("section", {}, element("h2", {}, name), element("ul", {}, ...items));
  }));
  const none = sections.length > 0 ? [] : [
    element("p", {}, text("areasNone")),
    element("pre", {}, element("code", {}, 'tileharvest areas NAME add "my base" 80,-400 240,-200')),
    element("p", {}, text("areasDraw")),
  ];
  fill("areas-page", [
    element("h1", {}, text("areasTitle")),
    missing === undefined ? null : element("p", { role: "alert" }, text("areaUnknown", { area: missing })),
    ...none, ...sections,
  ].filter((child) => child !== null));
}

/** @param {api.MapSummary[]} maps @param {{map: string, area: string}} wanted */
export async function drawArea(maps, { map, area: name }) {
  const known = maps.some((one) => one.name === map && one.areas > 0) ? await api.areas(map) : [];
  if (known.every((area) => area.name !== name || area.place === null)) {
    await drawAreas(maps, `${map}: ${name}`);
    return;
  }
  const area = await api.area(map, name);
  const days = Object.entries(area.days).reverse();
  const onMap = area.place && writeHash({ ...NOTHING, map, layer: area.layer, ...area.place });
  const shown = days.slice(0, MOST_SHOWN).map(([day, tiles], index) => chapter(map, area, day, days[index + 1]?.[0] ?? null, tiles));
  fill("areas-page", [
    element("p", {}, element("a", { href: AREAS }, text("areasTitle"))),
    element("h1", {}, name),
    element("p", {}, `${map} · ${text("areaCorners", { layer: area.layer, corners: corners(area) })}`),
    element("p", { class: "actions" }, ...[
      onMap && element("a", { href: onMap }, text("areaOnMap")),
      element("a", { href: api.feedAddress(map, area.layer, language(), groundOf(area)) }, text("areaFeed")),
    ].filter((link) => link !== null)),
    days.length < 2 ? null : filmOfArea(map, area),
    days.length === 0 ? element("p", {}, text("areaNothing")) : null,
    element("ol", { class: "chapters", reversed: true }, ...shown),
    days.length > MOST_SHOWN ? element("p", {}, text("areaEarlier", { n: days.length - MOST_SHOWN })) : null,
  ].filter((child) => child !== null));
}

/**
 * @param {string} map @param {api.AreaStory} area @param {string} day @param {string | null} before the day of
 *   the change before; null: nothing was there @param {number} tiles
 */
function chapter(map, area, day, before, tiles) {
  const look = { ...NOTHING, map, layer: area.layer, day, ...area.place };
  const href = writeHash(before === null ? look : { ...look, mode: "swipe", other: before });
  const alt = before === null
    ? text("areaFirst", { day: dayInWords(day, "long") })
    : text("areaPicture", { before: dayInWords(before, "long"), day: dayInWords(day, "long") });
  const src = before === null
    ? api.groundAddress(map, area.layer, day, groundOf(area))
    : api.beforeAddress(map, area.layer, { before, last: day, ground: area.ground });
  return element("li", { "data-day": day },
    element("h2", {}, dayInWords(day, "long")),
    element("p", {}, before === null ? text("storyFirst") : text("areaTiles", { n: tiles })),
    element("a", { href, title: text(before === null ? "storyShow" : "storyCompare") },
      element("img", { src, alt, loading: "lazy" })));
}

/** @param {api.NamedArea} area @returns {api.Ground} */
function groundOf({ ground: [west, south, east, north] }) {
  return { west, south, east, north };
}

/** @param {api.NamedArea} area @returns {string} */
function corners({ corners: both }) {
  return both.map((corner) => corner.join(", ")).join(" – ");
}

/** @param {string} map @param {api.AreaStory} area @returns {HTMLElement} the button that saves its film, and what it tells */
function filmOfArea(map, area) {
  const days = Object.keys(area.days);
  const key = JSON.stringify([language(), map, area.name, area.layer, area.corners]);
  if (film?.key === key) {
    film.days = days;
    return film.block;
  }
  film?.making.abort();
  const making = new AbortController();
  const { run, told, bar } = saver(making.signal);
  const made = { key, days, making, block: element("div", { class: "actions" }) };
  made.block.append(element("button", {
    type: "button", onclick: () => run((tell) => saveFilm(map, area, made.days, making.signal, tell)),
  }, text("saveFilm")), bar, told);
  film = made;
  return made.block;
}

/**
 * @param {string} map @param {api.NamedArea} area @param {string[]} days oldest first @param {AbortSignal} signal
 * @param {(done: number, of: number) => void} tell
 * @returns {Promise<string>} what is told
 */
async function saveFilm(map, area, days, signal, tell) {
  const picture = await lastPicture(map, area, days, signal);
  const body = picture && await drawnFilm(picture, map, area, days, signal, tell);
  if (body === null) throw new Error(text("saveNoFilm"));
  return download(body, `${map}-${area.name}-${days[0]}-${days[days.length - 1]}.webm`);
}

/**
 * @param {ImageBitmap} picture of the last day @param {string} map @param {api.NamedArea} area @param {string[]} days
 * @param {AbortSignal} signal @param {(done: number, of: number) => void} tell
 * @returns {Promise<Blob | null>} null: this browser cannot make films
 */
async function drawnFilm(picture, map, area, days, signal, tell) {
  // Whole pixels keep their edges.
  const times = Math.max(1, Math.ceil(NARROWEST / picture.width));
  const extent = { width: picture.width * times, height: picture.height * times };
  const draw = async (/** @type {string} */ day) => {
    const canvas = canvasOf(extent.width, extent.height);
    const brush = brushOf(canvas);
    const body = await api.areaImage(map, area, day, signal);
    brush.imageSmoothingEnabled = false;
    if (body !== null) brush.drawImage(await createImageBitmap(body), 0, 0, extent.width, extent.height);
    return canvas;
  };
  const words = `${map} · ${area.name}`;
  return filmOf(extent, days, draw, words, signal, (done) => tell(done, days.length));
}

/**
 * @param {string} map @param {api.NamedArea} area @param {string[]} days @param {AbortSignal} signal
 * @returns {Promise<ImageBitmap | null>} of the last day that has one; null: the server draws no area that is so large
 */
async function lastPicture(map, area, days, signal) {
  for (const day of [...days].reverse()) {
    const body = await api.areaImage(map, area, day, signal);
    if (body !== null) return createImageBitmap(body);
  }
  return null;
}
