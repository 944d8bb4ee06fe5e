/**
 * What changed between two pictures of a place, in cells of 8 x 8 pixels, and a drawing of it.
 *
 * @typedef {{data: Uint8ClampedArray, width: number, height: number}} Pixels as ImageData has them
 * @typedef {object} Difference
 * @property {Uint8Array} changed 1 for each cell that changed, row by row from the upper left
 * @property {number} columns
 * @property {number} rows
 * @property {number} share of the cells that changed, 0 to 1; 0 if there are none
 */
import { pixelsOf } from "./pixels.js";

/** Pixels along a cell's edge. Cells at the right and the lower edge may be narrower. */
export const CELL = 8;

/**
 * The least difference, of 255, of a cell's average colour or opacity that counts as a change.
 *
 * Measured on 81 real tiles, of which a third of the cells has a texture. The same picture as png and as
 * jpeg of quality 75 to 95, with 4:4:4 and 4:2:0, each against each: of 2,202,624 cells with a texture none
 * differs by 5 (16 in a million by 4, 0.04 % by 3). As webp of quality 75 to 95 0.004 % do, with 256 colours
 * 0.15 %. Real changes, 85 tiles that a site published anew: of 76,379 cells in which an eighth of the pixels
 * differs visibly 0.4 % stay below 5. Where both days show ground it is 1.2 % of those that differ in half
 * of their pixels, and 54 % of those that differ in fewer.
 *
 * The mean of the pixels' own differences is far worse, as fine texture is what encoders change most: to be
 * as sure of noise it needs 19, and then misses 4 %, and 14 % of those that differ in half over ground.
 */
export const THRESHOLD = 5;

const FADED = 0.35; // Opacity of what did not change: the colour behind the map makes it lighter or darker.
const GONE = 0.75; // Opacity of what was there and is there no more.
const LINE = [255, 0, 200]; // Pink, far from the colours of grass, water, sand, snow, stone and lava.

/**
 * A cell has changed when its average colour, each pixel as it is on black, or its average opacity differs by
 * more than the threshold. If a picture is missing, everything that the other one shows has changed.
 * @param {Pixels | null} before
 * @param {Pixels | null} after of the same size
 * @returns {Difference} without cells if both are missing
 * @throws {RangeError} if the sizes differ
 */
export function difference(before, after) {
  const { width, height } = sizeOf(before, after);
  const columns = Math.ceil(width / CELL);
  const rows = Math.ceil(height / CELL);
  const changed = new Uint8Array(columns * rows);
  if (before && after) markDifferent(before, after, columns, changed);
  else markVisible(/** @type {Pixels} */ (before ?? after ?? NONE), columns, changed);
  const count = changed.reduce((sum, value) => sum + value, 0);
  return { changed, columns, rows, share: count / Math.max(1, changed.length) };
}

/**
 * Draw what changed in the newer picture's colours with a line around it, and the rest grey and faint. Where
 * the newer picture has nothing, what was there is drawn in the line's colour.
 * @param {Pixels | null} before @param {Pixels | null} after as they were compared
 * @param {Difference} found
 * @param {Pixels} output of the same size; all of it is overwritten
 */
export function drawDifference(before, after, found, output) {
  const { data, width, height } = output;
  data.fill(0);
  const older = (before ?? after)?.data;
  const newer = (after ?? before)?.data;
  if (!older || !newer) return;
  for (let y = 0, at = 0; y < height; y += 1) {
    const row = Math.floor(y / CELL) * found.columns;
    for (let x = 0; x < width; x += 1, at += 4) {
      if (!found.changed[row + Math.floor(x / CELL)]) drawFaded(newer, at, data);
      else if (after && newer[at + 3] > 0) drawAsItIs(newer, at, data);
      else drawGone(older, at, data);
    }
  }
  drawLines(found, output);
}

/**
 * @param {import("./map-view.js").Pictures} before
 * @param {import("./map-view.js").Pictures} after
 * @returns {import("./map-view.js").Drawing}
 */
export function differenceDrawing(before, after) {
  return async (tile, canvas) => {
    const [old, young] = await Promise.all([before(tile), after(tile)]);
    if (!old && !young) return;
    const load = (/** @type {string | null | undefined} */ address) =>
      (address ? pixelsOf(address, canvas) : Promise.resolve(null));
    const [first, second] = await Promise.all([load(old), load(young)]);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const drawn = context.createImageData(canvas.width, canvas.height);
    drawDifference(first, second, difference(first, second), drawn);
    context.putImageData(drawn, 0, 0);
  };
}

/**
 * @param {string | null} before address of a picture, or none @param {string | null} after
 * @param {import("./api.js").Size} size to which they are brought
 * @returns {Promise<number>} which share of the cells changed, 0 to 1
 */
export async function changedShare(before, after, size) {
  const load = (/** @type {string | null} */ address) => (address ? pixelsOf(address, size) : null);
  const [first, second] = await Promise.all([load(before), load(after)]);
  return difference(first, second).share;
}

/** @type {Pixels} */
const NONE = { data: new Uint8ClampedArray(0), width: 0, height: 0 };

/** @param {Pixels | null} before @param {Pixels | null} after @returns {Pixels} one that has their size */
function sizeOf(before, after) {
  if (before && after && (before.width !== after.width || before.height !== after.height)) {
    const sizes = [before, after].map(({ width, height }) => `${width} x ${height}`);
    throw new RangeError(`pictures of ${sizes.join(" and ")} pixels cannot be compared`);
  }
  return before ?? after ?? NONE;
}

/** @param {Pixels} before @param {Pixels} after @param {number} columns @param {Uint8Array} changed */
function markDifferent(before, after, columns, changed) {
  const sums = sumsOfDifferences(before, after, columns, changed.length);
  for (let cell = 0, at = 0; cell < changed.length; cell += 1, at += 4) {
    const across = Math.min(CELL, before.width - (cell % columns) * CELL);
    const down = Math.min(CELL, before.height - Math.floor(cell / columns) * CELL);
    const colour = (Math.abs(sums[at]) + Math.abs(sums[at + 1]) + Math.abs(sums[at + 2])) / 3;
    if (Math.max(colour, Math.abs(sums[at + 3])) > THRESHOLD * across * down) changed[cell] = 1;
  }
}

/**
 * Each cell's sums over its pixels of how much redder, greener, bluer and more opaque they became.
 * @param {Pixels} before @param {Pixels} after @param {number} columns @param {number} cells
 */
function sumsOfDifferences(before, after, columns, cells) {
  const sums = new Float64Array(4 * cells);
  const [oldWords, newWords] = [wordsOf(before), wordsOf(after)];
  const { width, height } = before;
  for (let y = 0, pixel = 0; y < height; y += 1) {
    const row = Math.floor(y / CELL) * columns;
    for (let x = 0; x < width; x += 1, pixel += 1) {
      // Most pixels of most pairs are equal, and one comparison finds that.
      if (oldWords[pixel] === newWords[pixel]) continue;
      addDifference(before.data, after.data, 4 * pixel, sums, 4 * (row + (x >> 3)));
    }
  }
  return sums;
}

/**
 * @param {Uint8ClampedArray} before @param {Uint8ClampedArray} after @param {number} from the pixel's place
 * @param {Float64Array} sums @param {number} to the cell's place
 */
function addDifference(before, after, from, sums, to) {
  const oldOpacity = before[from + 3];
  const newOpacity = after[from + 3];
  for (let colour = 0; colour < 3; colour += 1) {
    sums[to + colour] += (after[from + colour] * newOpacity - before[from + colour] * oldOpacity) / 255;
  }
  sums[to + 3] += newOpacity - oldOpacity;
}

/** @param {Pixels} pixels @returns {Uint32Array} one number per pixel, the same for the same pixels */
function wordsOf({ data, width, height }) {
  const aligned = data.byteOffset % 4 === 0 ? data : data.slice();
  return new Uint32Array(aligned.buffer, aligned.byteOffset, width * height);
}

/** @param {Pixels} pixels @param {number} columns @param {Uint8Array} changed */
function markVisible({ data, width, height }, columns, changed) {
  for (let y = 0, at = 3; y < height; y += 1) {
    const row = Math.floor(y / CELL) * columns;
    for (let x = 0; x < width; x += 1, at += 4) {
      if (data[at] > 0) changed[row + Math.floor(x / CELL)] = 1;
    }
  }
}

/** @param {Uint8ClampedArray} pixels @param {number} at @returns {number} how light a pixel is, 0 to 255 */
function lightness(pixels, at) {
  return 0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2];
}

/** @param {Uint8ClampedArray} from @param {number} at @param {Uint8ClampedArray} to */
function drawFaded(from, at, to) {
  const grey = lightness(from, at);
  to[at] = grey;
  to[at + 1] = grey;
  to[at + 2] = grey;
  to[at + 3] = from[at + 3] * FADED;
}

/** @param {Uint8ClampedArray} from @param {number} at @param {Uint8ClampedArray} to */
function drawAsItIs(from, at, to) {
  for (let part = at; part < at + 4; part += 1) to[part] = from[part];
}

/** @param {Uint8ClampedArray} from @param {number} at @param {Uint8ClampedArray} to */
function drawGone(from, at, to) {
  // The colour is never quite dark, so that night is pink as well.
  const light = 0.3 + (0.7 * lightness(from, at)) / 255;
  for (let colour = 0; colour < 3; colour += 1) to[at + colour] = LINE[colour] * light;
  to[at + 3] = from[at + 3] * GONE;
}

/**
 * Draw a line of one pixel inside the changed cells, along unchanged cells. There is no line at the picture's edges,
 * where the neighbour belongs to another picture.
 * @param {Difference} found @param {Pixels} output
 */
function drawLines({ changed, columns, rows }, output) {
  for (let cell = 0; cell < changed.length; cell += 1) {
    if (!changed[cell]) continue;
    const [column, row] = [cell % columns, Math.floor(cell / columns)];
    const [left, top] = [column * CELL, row * CELL];
    const [last, bottom] = [left + CELL - 1, top + CELL - 1];
    if (column > 0 && !changed[cell - 1]) fill(output, left, top, left, bottom);
    if (column < columns - 1 && !changed[cell + 1]) fill(output, last, top, last, bottom);
    if (row > 0 && !changed[cell - columns]) fill(output, left, top, last, top);
    if (row < rows - 1 && !changed[cell + columns]) fill(output, left, bottom, last, bottom);
  }
}

/**
 * @param {Pixels} output
 * @param {number} left @param {number} top @param {number} right @param {number} bottom edges included, cut
 *   to the picture
 */
function fill({ data, width, height }, left, top, right, bottom) {
  for (let y = top; y <= Math.min(bottom, height - 1); y += 1) {
    for (let x = left; x <= Math.min(right, width - 1); x += 1) {
      data.set([...LINE, 255], 4 * (y * width + x));
    }
  }
}
