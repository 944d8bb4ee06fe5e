/**
 * Links of the page that uNmINeD exports: `#rx=12&rz=-7` marks a block and goes there (`RedDotMarker` of its
 * `unmined.openlayers.js`). They have no zoom. Pages of older versions go nowhere.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { hashOf, pageOf, wholeIn } from "./links.js";

/** @param {string} text an address of its page, or the part of it from `#` on @returns {Link | null} */
export function parseLink(text) {
  const said = new URLSearchParams(hashOf(text) ?? "");
  const x = wholeIn(said.get("rx"));
  const z = wholeIn(said.get("rz"));
  return x === null || z === null ? null : { x, y: null, z, zoom: null, world: null, style: null };
}

/** @returns {null} */
export function zoomOf() {
  return null;
}

/** @param {Link} _ @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf(_, layers) {
  return layers[0]?.name ?? null;
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z }) {
  return `${pageOf(url)}#rx=${x}&rz=${z}`;
}
