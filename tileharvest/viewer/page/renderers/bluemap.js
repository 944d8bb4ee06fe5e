/**
 * Links of BlueMap's own page: `#map:x:y:z:distance:rotation:angle:tilt:ortho:view` (`updatePageAddress` of its
 * `BlueMapApp.js`). The distance is that of the camera, in blocks. Our layers are its maps.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { decoded, hashOf, isCoordinate, layerNamed, pageOf, whole } from "./links.js";

const HEIGHT = 64;
const FACTOR = 5; // `lodFactor`, which nobody changes.
/** From so far away a window of 800 pixels shows about 800 blocks, as our deepest zoom does. */
const DISTANCE = 500;

/** @param {string} text an address of its page, or the part of it from `#` on @returns {Link | null} */
export function parseLink(text) {
  const parts = (hashOf(text) ?? "").split(":");
  const [map, x, y, z, distance] = parts;
  if (parts.length !== 10 || ![x, y, z, distance].every(isCoordinate)) return null;
  return { x: whole(x), y: null, z: whole(z), zoom: Number(distance), world: decoded(map), style: null };
}

/** @param {Link} link @returns {number | null} the zoom at which about as much is seen, to a half */
export function zoomOf({ zoom }) {
  if (typeof zoom !== "number" || zoom <= 0) return null;
  return Math.round((-2 * Math.log(zoom / DISTANCE)) / Math.log(FACTOR)) / 2 + 0;
}

/** @param {Link} link @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf({ world }, layers) {
  return layerNamed(world, null, layers);
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z, zoom, layer }) {
  const distance = Math.round(DISTANCE * FACTOR ** -zoom);
  return `${pageOf(url)}#${encodeURI(layer)}:${x}:${HEIGHT}:${z}:${distance}:0:0:0:1:flat`;
}
