/**
 * The work of `difference.js` for a page that may not see the pixels of its pictures, which is a page that was opened
 * by a double click. It lays the pictures over each other, and the browser mixes them without showing the pixels to
 * the page.
 */
import * as pixels from "../difference.js";

export const CELL = pixels.CELL;
export const THRESHOLD = pixels.THRESHOLD;

const IS_BLIND = location.protocol === "file:";
const FADED = 0.35; // As in the other module.
const LINE = "#ff00c8";

/**
 * @param {import("../map-view.js").Pictures} before @param {import("../map-view.js").Pictures} after
 * @returns {import("../map-view.js").Drawing}
 */
export function differenceDrawing(before, after) {
  return IS_BLIND ? laidOver(before, after) : pixels.differenceDrawing(before, after);
}

/**
 * @param {string | null} before @param {string | null} after @param {import("../api.js").Size} size
 * @returns {Promise<number>} fails if the page may not see pixels, and then it does not say how much has changed
 */
export async function changedShare(before, after, size) {
  if (IS_BLIND) throw new Error("no pixels");
  return pixels.changedShare(before, after, size);
}

/**
 * The same cells of 8 x 8 pixels, changed where one of the colours, on black, or the opacity of a cell differs by
 * more
 * than the threshold: colour by colour, where the other module takes the mean of the three.
 * @param {import("../map-view.js").Pictures} before @param {import("../map-view.js").Pictures} after
 * @returns {import("../map-view.js").Drawing}
 */
function laidOver(before, after) {
  return async (tile, canvas) => {
    const [old, young] = await Promise.all([before(tile), after(tile)]);
    if (!old && !young) return;
    const [first, second] = await Promise.all([old, young].map((address) => (address ? loaded(address) : null)));
    const { width, height } = canvas;
    const cells = [Math.ceil(width / CELL), Math.ceil(height / CELL)];
    const changed = different(inCells(first, width, height, false), inCells(second, width, height, false));
    lay(changed, "lighten", different(inCells(first, width, height, true), inCells(second, width, height, true)));
    const mask = inWhite(changed);
    const size = { width, height, across: cells[0] * CELL, down: cells[1] * CELL };
    const shown = /** @type {HTMLImageElement} */ (second ?? first);
    const whole = sheet(width, height);
    // Unchanged places are grey and faint, changed ones as they are now, and gone ones as they were, in pink.
    const faint = drawn(shown, width, height);
    fill(faint, "saturation", "#808080");
    lay(faint, "destination-in", drawn(shown, width, height));
    lay(whole, "lighter", onBlack(faint, inverse(mask), size, FADED));
    if (second !== null) lay(whole, "lighter", onBlack(drawn(second, width, height), mask, size, 1));
    if (first !== null) {
      const gone = drawn(first, width, height);
      if (second !== null) lay(gone, "destination-out", drawn(second, width, height));
      fill(gone, "source-atop", LINE, 0.6);
      lay(whole, "lighter", onBlack(gone, mask, size, 1));
    }
    const either = sheet(width, height);
    for (const picture of [first, second]) if (picture !== null) contextOf(either).drawImage(picture, 0, 0, width, height);
    lay(whole, "destination-in", either);
    contextOf(canvas).drawImage(whole, 0, 0);
  };
}

/**
 * @param {HTMLCanvasElement} picture @param {HTMLCanvasElement} mask white where it is to be seen
 * @param {{across: number, down: number}} size of the mask in pixels @param {number} share of its light
 * @returns {HTMLCanvasElement} opaque, and black where it is not to be seen
 */
function onBlack(picture, mask, { across, down }, share) {
  fill(picture, "destination-over", "#000");
  const light = Math.round(255 * share);
  fill(picture, "multiply", `rgb(${light} ${light} ${light})`);
  const context = contextOf(picture);
  context.imageSmoothingEnabled = false;
  context.globalCompositeOperation = "multiply";
  context.drawImage(mask, 0, 0, across, down);
  context.globalCompositeOperation = "source-over";
  return picture;
}

/** @param {HTMLCanvasElement} canvas @param {GlobalCompositeOperation} how @param {string} colour @param {number} [opacity] */
function fill(canvas, how, colour, opacity = 1) {
  const context = contextOf(canvas);
  context.globalCompositeOperation = how;
  context.globalAlpha = opacity;
  context.fillStyle = colour;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
  context.globalCompositeOperation = "source-over";
}

/** @param {string} address @returns {Promise<HTMLImageElement>} */
async function loaded(address) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  return picture;
}

/** @param {number} width @param {number} height */
function sheet(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

/** @param {HTMLCanvasElement} canvas */
function contextOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/** @param {CanvasImageSource} picture @param {number} width @param {number} height */
function drawn(picture, width, height) {
  const canvas = sheet(width, height);
  contextOf(canvas).drawImage(picture, 0, 0, width, height);
  return canvas;
}

/** @param {HTMLCanvasElement} below @param {GlobalCompositeOperation} how @param {CanvasImageSource} above */
function lay(below, how, above) {
  const context = contextOf(below);
  context.globalCompositeOperation = how;
  context.drawImage(above, 0, 0);
  context.globalCompositeOperation = "source-over";
}

/**
 * @param {HTMLImageElement | null} picture @param {number} width @param {number} height
 * @param {boolean} isOpacity its opacity, as white on black, in place of its colours on black
 * @returns {HTMLCanvasElement} a pixel for each cell, its mean
 */
function inCells(picture, width, height, isOpacity) {
  let canvas = sheet(width, height);
  if (picture !== null) contextOf(canvas).drawImage(picture, 0, 0, width, height);
  if (isOpacity) fill(canvas, "source-in", "#fff");
  fill(canvas, "destination-over", "#000");
  // The picture is halved step by step, because smoothing then is the mean of four pixels.
  for (let cell = CELL; cell > 1; cell /= 2) {
    const half = sheet(Math.ceil(canvas.width / 2), Math.ceil(canvas.height / 2));
    contextOf(half).drawImage(canvas, 0, 0, canvas.width / 2, canvas.height / 2);
    canvas = half;
  }
  return canvas;
}

/** @param {HTMLCanvasElement} one @param {HTMLCanvasElement} other @returns {HTMLCanvasElement} black where they are about the same */
function different(one, other) {
  lay(one, "difference", other);
  const threshold = `rgb(${THRESHOLD} ${THRESHOLD} ${THRESHOLD})`;
  // The threshold is taken away from each pixel, and what is left is made as bright as possible.
  fill(one, "lighten", threshold);
  fill(one, "difference", threshold);
  fill(one, "color-dodge", "#fff");
  return one;
}

/** @param {HTMLCanvasElement} marks of any colours on black @returns {HTMLCanvasElement} white where there is a mark */
function inWhite(marks) {
  fill(marks, "saturation", "#808080");
  fill(marks, "color-dodge", "#fff");
  return marks;
}

/** @param {HTMLCanvasElement} mask @returns {HTMLCanvasElement} white where the mask is black */
function inverse(mask) {
  const other = drawn(mask, mask.width, mask.height);
  fill(other, "difference", "#fff");
  return other;
}
