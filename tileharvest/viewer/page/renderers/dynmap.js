/**
 * Links of Dynmap's own page: `?worldname=world&mapname=flat&zoom=5&x=0&y=64&z=0` (`getLink` of its `map.js`).
 * Zoom 0 is the coarsest.
 *
 * Our layers are a world and a map's name each, with `_day` where it is drawn by day, too. Its page chooses day
 * or night by the server's time.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { layerNamed, linkInQuery, pageOf } from "./links.js";

const HEIGHT = 64;
const DAY = /_day$/;

/** @param {string} text an address of its page, or its query @returns {Link | null} */
export function parseLink(text) {
  return linkInQuery(text, "worldname", "mapname");
}

/** @param {Link} link @param {{depth: number}} layout @returns {number | null} */
export function zoomOf({ zoom }, { depth }) {
  return typeof zoom === "number" ? zoom - (depth - 1) : null;
}

/** @param {Link} link @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf({ world, style }, layers) {
  return layerNamed(`${world}/${style}`, world, layers);
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z, zoom, depth, layer }) {
  const cut = layer.lastIndexOf("/");
  const [world, map] = [layer.slice(0, cut), layer.slice(cut + 1).replace(DAY, "")].map(encodeURIComponent);
  const level = Math.max(0, depth - 1 + Math.round(zoom));
  return `${pageOf(url)}?worldname=${world}&mapname=${map}&zoom=${level}&x=${x}&y=${HEIGHT}&z=${z}`;
}
