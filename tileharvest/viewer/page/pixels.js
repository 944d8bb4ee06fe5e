/** The pixels of the pictures at addresses, loaded once and kept for a while. */

const MOST_PICTURES = 64; // Of 384 x 384 pixels in four bytes: 38 MB.

/** @type {Map<string, Promise<ImageData>>} oldest first */
const kept = new Map();

/**
 * @param {string} address of a picture of this server
 * @param {number} size to which it is brought, in pixels
 * @returns {Promise<ImageData>} a square of that size
 */
export function pixelsOf(address, size) {
  const key = `${size} ${address}`;
  let pixels = kept.get(key);
  kept.delete(key);
  if (pixels === undefined) {
    pixels = load(address, size);
    pixels.catch(() => kept.delete(key));
  }
  kept.set(key, pixels);
  if (kept.size > MOST_PICTURES) kept.delete(kept.keys().next().value ?? "");
  return pixels;
}

/** @param {string} address @param {number} size @returns {Promise<ImageData>} */
async function load(address, size) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  const canvas = new OffscreenCanvas(size, size);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (
    canvas.getContext("2d", { willReadFrequently: true })
  );
  context.drawImage(picture, 0, 0, size, size);
  return context.getImageData(0, 0, size, size);
}
