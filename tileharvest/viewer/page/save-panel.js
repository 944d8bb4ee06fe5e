/**
 * The panel that saves what is in view: a picture of the day on the screen, of two days beside each other, or a film.
 */
import * as api from "./api.js";
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
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
const STEP = 50; // Milliseconds of a picture of a cross-fade.
const FADE = 2; // Pictures between two days.
const SHOWN = 500; // Milliseconds of a day.
const END = 2000; // Milliseconds of the last one.
const BITS = 6; // Of a pixel and second: as much as a map of the game needs to stay sharp.
const KEY = 5000; // Milliseconds between two pictures that need none before them.
const WAITING = 4; // Pictures that the encoder holds at most.
const SERVED = 366; // Days that a film of the server's has at most.
/**
 * The codecs that a browser may write, with their names in the file: VP9 at level 4.1, which is enough for a
 * desktop's screen, and VP8.
 */
const CODECS = /** @type {const} */ ([["vp09.00.41.08", "V_VP9"], ["vp8", "V_VP8"]]);

/**
 * @param {LayerView} view
 * @param {() => {day: string, other: string | null, days: string[], why: string}} look the day on the screen, the day
 *   that it is compared with, the days of a film in order, and the reason if there are none
 * @param {AbortSignal} signal ends the making of a film
 * @returns {HTMLElement}
 */
export function savePanel(view, look, signal) {
  const told = element("p", { role: "status" });
  const bar = element("progress", { value: 0, hidden: true, "aria-label": text("saveFilm") });
  const { other } = look();
  const buttons = [
    element("button", {
      type: "button", id: "save-picture",
      onclick: () => run(() => savePicture(view, look().day, look().other)),
    }, text(other === null ? "savePicture" : "savePictures")),
    element("button", {
      type: "button", id: "save-film",
      onclick: () => run(async () => {
        const { days, why } = look();
        if (days.length < 2) return why;
        bar.max = days.length;
        bar.hidden = false;
        return saveFilm(view, days, signal, (done) => {
          bar.value = done;
        });
      }),
    }, text("saveFilm")),
  ];
  /** @param {() => Promise<string>} make returns what is told when it is saved */
  async function run(make) {
    // The buttons are not disabled, because a disabled button loses the focus.
    if (told.ariaBusy === "true") return;
    told.ariaBusy = "true";
    told.textContent = text("saving");
    try {
      told.textContent = await make();
    } catch (error) {
      if (!signal.aborted) {
        told.textContent = text("failed", { message: error instanceof Error ? error.message : String(error) });
      }
    } finally {
      bar.hidden = true;
      told.ariaBusy = "false";
    }
  }
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
    letter(scene, view, part, one);
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
  // Encoders need edges with an even number of pixels.
  const size = { width: part.width & ~1, height: part.height & ~1 };
  const config = await configOf(size);
  if (config === null) {
    const { outline, layer } = view;
    if (!api.film) throw new Error(text("saveNoFilm"));
    const last = days.slice(-SERVED);
    const body = await api.film(outline.name, layer.name, part.ground, last[0], signal);
    const told = download(body, `${outline.name}-${last[0]}-${last[last.length - 1]}.webp`);
    return last.length < days.length ? `${told}. ${text("savedLast", { n: SERVED })}` : told;
  }
  const { webmOf } = await import("./webm.js");
  /** @type {import("./webm.js").Chunk[]} */
  const chunks = [];
  /** @type {Error | null} */
  let failure = null;
  const encoder = new VideoEncoder({
    output: (chunk) => {
      const bytes = new Uint8Array(chunk.byteLength);
      chunk.copyTo(bytes);
      chunks.push({ bytes, at: Math.round(chunk.timestamp / 1000), isKey: chunk.type === "key" });
    },
    error: (error) => {
      failure = error;
    },
  });
  encoder.configure(config.settings);
  const sheet = canvasOf(size.width, size.height);
  const brush = brushOf(sheet);
  let at = 0;
  let key = -KEY;
  /** @param {number} lasts milliseconds */
  const add = async (lasts) => {
    const keyFrame = at - key >= KEY;
    if (keyFrame) key = at;
    const frame = new VideoFrame(sheet, { timestamp: at * 1000, duration: lasts * 1000 });
    encoder.encode(frame, { keyFrame });
    frame.close();
    at += lasts;
    while (encoder.encodeQueueSize > WAITING) await new Promise((resolve) => setTimeout(resolve));
    if (failure !== null) throw failure;
    if (signal.aborted) throw signal.reason;
  };
  try {
    /** @type {HTMLCanvasElement | null} */
    let before = null;
    for (const [number, day] of days.entries()) {
      const scene = await drawn(view, part, day);
      for (let step = 1; before !== null && step <= FADE; step += 1) {
        brush.globalAlpha = 1;
        brush.drawImage(before, 0, 0);
        brush.globalAlpha = step / (FADE + 1);
        brush.drawImage(scene, 0, 0);
        brush.globalAlpha = 1;
        letter(sheet, view, part, day);
        await add(STEP);
      }
      brush.drawImage(scene, 0, 0);
      letter(sheet, view, part, day);
      const isLast = number === days.length - 1;
      await add(isLast ? END : SHOWN - (before === null ? 0 : FADE * STEP));
      // This picture ends the film: players show the one before for its whole time only if another follows.
      if (isLast) await add(STEP);
      before = scene;
      tell(number + 1);
    }
    await encoder.flush();
  } finally {
    if (encoder.state !== "closed") encoder.close();
  }
  const body = webmOf(chunks, size, config.codec, at);
  return download(body, `${view.outline.name}-${days[0]}-${days[days.length - 1]}.webm`);
}

/** @param {{width: number, height: number}} size */
async function configOf({ width, height }) {
  if (!("VideoEncoder" in globalThis)) return null;
  for (const [codec, name] of CODECS) {
    const settings = { codec, width, height, bitrate: width * height * BITS, framerate: 1000 / STEP };
    const { supported } = await VideoEncoder.isConfigSupported(settings).catch(() => ({ supported: false }));
    if (supported) return { settings, codec: name };
  }
  return null;
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
    brush.imageSmoothingEnabled = renderer.inDegrees || right - left < picture.naturalWidth;
    brush.imageSmoothingQuality = "high";
    brush.drawImage(picture, left, top, right - left, bottom - top);
  }));
  return canvas;
}

/**
 * Write the day, the place and the map on a picture. The map may have been moved since.
 * @param {HTMLCanvasElement} canvas @param {LayerView} view @param {Part} part @param {string} day
 */
function letter(canvas, { outline }, { place }, day) {
  const brush = brushOf(canvas);
  const line = Math.max(13, Math.round(Math.min(canvas.width, canvas.height) / 40));
  brush.font = `${line}px system-ui, sans-serif`;
  brush.textBaseline = "middle";
  const plate = (/** @type {string} */ words, /** @type {boolean} */ isRight) => {
    const width = brush.measureText(words).width + line;
    const left = isRight ? canvas.width - width - line / 2 : line / 2;
    brush.fillStyle = "rgb(0 0 0 / 60%)";
    brush.fillRect(left, canvas.height - 2.3 * line, width, 1.8 * line);
    brush.fillStyle = "#fff";
    brush.fillText(words, left + line / 2, canvas.height - 1.4 * line);
    return width;
  };
  const used = plate(dayInWords(day, "long"), false);
  const words = `${outline.name} · ${place}`;
  // On a narrow picture there is room for the day only.
  if (used + brush.measureText(words).width + 3 * line < canvas.width) plate(words, true);
}

/** @param {number} width @param {number} height */
function canvasOf(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

/** @param {HTMLCanvasElement} canvas */
function brushOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/** @param {Blob} body @param {string} name @returns {string} what is told */
function download(body, name) {
  const href = URL.createObjectURL(body);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
  return text("saved", { name });
}
