/** The pixels of the pictures at addresses, loaded once and kept for a while. */
import { loadedPicture } from "./map-view.js";

const MOST_PIXELS = 64 * 384 * 384; // Of four bytes: 38 MB, as 64 pictures of 384 x 384 or 9 of 1,024 x 1,024.

/** @type {Map<string, Promise<ImageData>>} oldest first */
const kept = new Map();

/**
 * @param {string} address of a picture of this server
 * @param {import("./api.js").Size} size to which it is brought
 * @returns {Promise<ImageData>} of that size
 */
export function pixelsOf(address, { width, height }) {
  const key = `${width} ${height} ${address}`;
  let pixels = kept.get(key);
  kept.delete(key);
  if (pixels === undefined) {
    pixels = load(address, width, height);
    pixels.catch(() => kept.delete(key));
  }
  kept.set(key, pixels);
  while (kept.size > 1 && kept.size * width * height > MOST_PIXELS) kept.delete(kept.keys().next().value ?? "");
  return pixels;
}

/** @param {string} address @param {number} width @param {number} height @returns {Promise<ImageData>} */
async function load(address, width, height) {
  const picture = await loadedPicture(address);
  const canvas = new OffscreenCanvas(width, height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (
    canvas.getContext("2d", { willReadFrequently: true })
  );
  context.drawImage(picture, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}
