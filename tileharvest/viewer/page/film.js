/** Films that the browser makes, the words on their pictures, and how they are saved. */
import { dayInWords } from "./days.js";
import { element } from "./dom.js";
import { text } from "./text.js";

const STEP = 50; // Milliseconds of a picture of a cross-fade.
const FADE = 2; // Pictures between two days.
const SHOWN = 500; // Milliseconds of a day.
const END = 2000; // Milliseconds of the last one.
const BITS = 6; // Of a pixel and second: as much as a map of the game needs to stay sharp.
const KEY = 5000; // Milliseconds between two pictures that need none before them.
const WAITING = 4; // Pictures that the encoder holds at most.
/**
 * The codecs that a browser may write, with their names in the file: VP9 at level 4.1, which is enough for a
 * desktop's screen, and VP8.
 */
const CODECS = /** @type {const} */ ([["vp09.00.41.08", "V_VP9"], ["vp8", "V_VP8"]]);

/**
 * What a person sees while something is made to be saved.
 * @param {AbortSignal} signal ends the making
 */
export function saver(signal) {
  const told = element("p", { role: "status" });
  const bar = element("progress", { value: 0, hidden: true, "aria-label": text("saveFilm") });
  /** @param {(tell: (done: number, of: number) => void) => Promise<string>} make returns what is told when it is saved */
  const run = async (make) => {
    // The buttons are not disabled, because a disabled button loses the focus.
    if (told.ariaBusy === "true") return;
    told.ariaBusy = "true";
    told.textContent = text("saving");
    try {
      told.textContent = await make((done, of) => {
        bar.max = of;
        bar.value = done;
        bar.hidden = false;
      });
    } catch (error) {
      if (!signal.aborted) {
        told.textContent = text("failed", { message: error instanceof Error ? error.message : String(error) });
      }
    } finally {
      bar.hidden = true;
      told.ariaBusy = "false";
    }
  };
  return { run, told, bar };
}

/**
 * @param {{width: number, height: number}} extent of the pictures
 * @param {string[]} days in order
 * @param {(day: string) => Promise<HTMLCanvasElement>} draw
 * @param {string} words what the film shows
 * @param {AbortSignal} signal ends the making
 * @param {(done: number) => void} tell is told how many days are drawn
 * @returns {Promise<Blob | null>} a WebM, or null if this browser cannot make films
 */
export async function filmOf(extent, days, draw, words, signal, tell) {
  // Encoders need edges with an even number of pixels.
  const size = { width: extent.width & ~1, height: extent.height & ~1 };
  const config = await configOf(size);
  if (config === null) return null;
  tell(0);
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
      const scene = await draw(day);
      for (let step = 1; before !== null && step <= FADE; step += 1) {
        brush.globalAlpha = 1;
        brush.drawImage(before, 0, 0);
        brush.globalAlpha = step / (FADE + 1);
        brush.drawImage(scene, 0, 0);
        brush.globalAlpha = 1;
        letter(sheet, words, day);
        await add(STEP);
      }
      brush.drawImage(scene, 0, 0);
      letter(sheet, words, day);
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
  return webmOf(chunks, size, config.codec, at);
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

/**
 * Write the day on a picture, and at the right what it shows.
 * @param {HTMLCanvasElement} canvas @param {string} words what it shows @param {string} day
 */
export function letter(canvas, words, day) {
  const brush = brushOf(canvas);
  const line = Math.max(13, Math.round(Math.min(canvas.width, canvas.height) / 40));
  brush.font = `${line}px system-ui, sans-serif`;
  brush.textBaseline = "middle";
  const plate = (/** @type {string} */ written, /** @type {boolean} */ isRight) => {
    const width = brush.measureText(written).width + line;
    const left = isRight ? canvas.width - width - line / 2 : line / 2;
    brush.fillStyle = "rgb(0 0 0 / 60%)";
    brush.fillRect(left, canvas.height - 2.3 * line, width, 1.8 * line);
    brush.fillStyle = "#fff";
    brush.fillText(written, left + line / 2, canvas.height - 1.4 * line);
    return width;
  };
  const used = plate(dayInWords(day, "long"), false);
  // On a narrow picture there is room for the day only.
  if (used + brush.measureText(words).width + 3 * line < canvas.width) plate(words, true);
}

/** @param {number} width @param {number} height */
export function canvasOf(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

/** @param {HTMLCanvasElement} canvas */
export function brushOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/** @param {Blob} body @param {string} name @returns {string} what is told */
export function download(body, name) {
  const href = URL.createObjectURL(body);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
  return text("saved", { name });
}
