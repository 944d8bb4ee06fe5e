/**
 * Links of squaremap's own page: `?world=minecraft_overworld&zoom=3&x=0&z=0` (`getUrlFromView` of its
 * `Squaremap.js`). Zoom 0 is the coarsest. Our layers are its worlds.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { layerNamed, linkInQuery, pageOf } from "./links.js";

/** @param {string} text an address of its page, or its query @returns {Link | null} */
export function parseLink(text) {
  return linkInQuery(text, "world", "renderer");
}

/** @param {Link} link @param {{depth: number}} layout @returns {number | null} */
export function zoomOf({ zoom }, { depth }) {
  return typeof zoom === "number" ? zoom - (depth - 1) : null;
}

/** @param {Link} link @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf({ world }, layers) {
  return layerNamed(world, world, layers);
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z, zoom, depth, layer }) {
  const level = Math.max(0, depth - 1 + Math.round(zoom));
  return `${pageOf(url)}?world=${encodeURIComponent(layer)}&zoom=${level}&x=${x}&z=${z}`;
}
