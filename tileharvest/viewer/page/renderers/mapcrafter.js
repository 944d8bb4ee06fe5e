/**
 * Links of Mapcrafter's own page: `#map/rotation/zoom/x/z/y` (`PosHashHandler` of its `mapcrafterui.js`).
 *
 * Zoom 0 is the whole-map image. Versions that were never released write overlays behind the map.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { decoded, hashOf, layerNamed, pageOf, wholeIn } from "./links.js";

const HEIGHT = 64;
const ROTATIONS = ["tl", "tr", "br", "bl"];

/** Its layers are squares around the middle of the grid, as large as their depth says. */
export const isSquare = true;

/** @param {string} text an address of its page, or the part of it from `#` on @returns {Link | null} */
export function parseLink(text) {
  const parts = (hashOf(text) ?? "").split("/");
  const numbers = parts.slice(-5).map(wholeIn);
  if (parts[0] === "" || ![6, 7].includes(parts.length) || numbers.includes(null)) return null;
  const [rotation, zoom, x, z, y] = /** @type {number[]} */ (numbers);
  return { x, y, z, zoom, world: decoded(parts[0]), style: ROTATIONS[rotation] ?? null };
}

/** @param {Link} link @param {{depth: number}} layout @returns {number | null} */
export function zoomOf({ zoom }, { depth }) {
  return typeof zoom === "number" ? Math.min(0, Math.max(-depth, zoom - depth)) : null;
}

/** @param {Link} link @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf({ world, style }, layers) {
  const ofMap = layers.find(({ name }) => name.startsWith(`${world}/`));
  return layerNamed(`${world}/${style}`, null, layers) ?? ofMap?.name ?? null;
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z, zoom, depth, layer }) {
  const [map, folder] = layer.split("/");
  const level = Math.min(depth, Math.max(0, depth + Math.round(zoom)));
  const rotation = Math.max(0, ROTATIONS.indexOf(folder));
  return `${pageOf(url)}#${[encodeURI(map), rotation, level, x, z, HEIGHT].join("/")}`;
}
