/**
 * The panel that saves what is in view: a picture of the day on the screen, of two days beside each other, or a film.
 */
import { element } from "./dom.js";
import { brushOf, canvasOf, download, filmOf, letter, saver } from "./film.js";
import { groundOf } from "./grid.js";
import { loadedPicture } from "./map-view.js";
import { text } from "./text.js";

/**
 * @typedef {import("./layer-view.js").LayerView} LayerView
 * @typedef {import("./api.js").Ground} Ground
 * @typedef {{width: number, height: number, ground: Ground, place: string, tiles: import("./api.js").Tile[]}} Part of
 *   the map that was in view when it was asked for, and its middle in words
 */

const GAP = 8; // Pixels between two days beside each other.
/**
 * @param {LayerView} view
 * @param {() => {day: string, other: string | null, days: string[], why: string}} look the day on the screen, the day
 *   that it is compared with, the days of a film in order, and the reason if there are none
 * @param {AbortSignal} signal ends the making of a film
 * @returns {HTMLElement}
 */
export function savePanel(view, look, signal) {
  const { run, told, bar } = saver(signal);
  const { other } = look();
  const buttons = [
    element("button", {
      type: "button", id: "save-picture",
      onclick: () => run(() => savePicture(view, look().day, look().other)),
    }, text(other === null ? "savePicture" : "savePictures")),
    element("button", {
      type: "button", id: "save-film",
      onclick: () => run(async (tell) => {
        const { days, why } = look();
        return days.length < 2 ? why : saveFilm(view, days, signal, (done) => tell(done, days.length));
      }),
    }, text("saveFilm")),
  ];
  return element("div", { class: "save-panel" },
    element("p", {}, text("saveHint")), element("p", { class: "actions" }, ...buttons), bar, told);
}

/** @param {LayerView} view @param {string} day @param {string | null} other @returns {Promise<string>} */
async function savePicture(view, day, other) {
  const part = partInView(view);
  const shown = [...(other === null ? [] : [other]), day].sort();
  const canvas = canvasOf(part.width * shown.length + GAP * (shown.length - 1), part.height);
  const brush = brushOf(canvas);
  brush.fillStyle = "#fff";
  brush.fillRect(0, 0, canvas.width, canvas.height);
  for (const [number, one] of shown.entries()) {
    const scene = await drawn(view, part, one);
    letter(scene, wordsOf(view, part), one);
    brush.drawImage(scene, number * (part.width + GAP), 0);
  }
  const body = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (body === null) throw new Error(text("saveTooLarge"));
  return download(body, `${view.outline.name}-${shown.join("-")}.png`);
}

/**
 * @param {LayerView} view @param {string[]} days @param {AbortSignal} signal @param {(done: number) => void} tell
 * @returns {Promise<string>}
 */
async function saveFilm(view, days, signal, tell) {
  const part = partInView(view);
  const words = wordsOf(view, part);
  const body = await filmOf(part, days, (day) => drawn(view, part, day), words, signal, tell);
  if (body === null) throw new Error(text("saveNoFilm"));
  return download(body, `${view.outline.name}-${days[0]}-${days[days.length - 1]}.webm`);
}

/** The map, and the place of the part: the map may have been moved since. @param {LayerView} view @param {Part} part */
function wordsOf({ outline }, { place }) {
  return `${outline.name} · ${place}`;
}

/** @param {LayerView} view @returns {Part} */
function partInView({ screen, coordinates }) {
  const { clientWidth: width, clientHeight: height } = screen.container;
  const { zoom, xFrom, xTo, yFrom, yTo } = screen.area;
  const step = 2 ** (1 - zoom);
  const tiles = [];
  for (let x = xFrom; x <= xTo; x += step) for (let y = yFrom; y <= yTo; y += step) tiles.push({ zoom, x, y });
  return { width, height, ground: screen.ground, place: coordinates.inWords(screen.position), tiles };
}

/**
 * Draw what was in view on a day. Fails if a picture cannot be loaded, so that no place is missing in silence.
 * @param {LayerView} view @param {Part} part @param {string} day @returns {Promise<HTMLCanvasElement>}
 */
async function drawn(view, { width, height, ground, tiles }, day) {
  const { outline, addresses, renderer, layer } = view;
  const description = outline.description(layer.name, day);
  const canvas = canvasOf(width, height);
  const brush = brushOf(canvas);
  brush.fillStyle = "#1a1a1a"; // Where the site names no other colour, or one that is none.
  brush.fillStyle = description.background ?? "#1a1a1a";
  brush.fillRect(0, 0, width, height);
  const across = width / (ground.east - ground.west);
  const down = height / (ground.north - ground.south);
  const harvest = outline.harvested(day);
  await Promise.all(tiles.map(async (tile) => {
    const address = await addresses.address(tile, harvest);
    if (!address) return;
    const picture = await loadedPicture(address);
    const edges = groundOf(tile, description.factor);
    // Tiles are drawn at whole pixels, so that there is no seam between neighbours.
    const left = Math.round((edges.west - ground.west) * across);
    const top = Math.round((ground.north - edges.north) * down);
    const right = Math.round((edges.east - ground.west) * across);
    const bottom = Math.round((ground.north - edges.south) * down);
    brush.imageSmoothingEnabled = renderer.inDegrees?.(description) || right - left < picture.naturalWidth;
    brush.imageSmoothingQuality = "high";
    brush.drawImage(picture, left, top, right - left, bottom - top);
  }));
  return canvas;
}
