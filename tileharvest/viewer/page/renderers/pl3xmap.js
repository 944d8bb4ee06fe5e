/**
 * Links of Pl3xMap's own page: `?world=minecraft-overworld&renderer=basic&zoom=0&x=0&z=0` (`getUrlFromView` of
 * its `Pl3xMap.ts`). Zoom 0 is the deepest, 1 the next coarser. Our layers are a world and a renderer each.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { layerNamed, linkInQuery, pageOf } from "./links.js";

/** @param {string} text an address of its page, or its query @returns {Link | null} */
export function parseLink(text) {
  const link = linkInQuery(text, "world", "renderer");
  // Its page writes a dimension both ways.
  return link && { ...link, world: link.world?.replaceAll(":", "-") ?? null };
}

/** @param {Link} link @returns {number | null} */
export function zoomOf({ zoom }) {
  return typeof zoom === "number" ? 0 - zoom : null;
}

/** @param {Link} link @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf({ world, style }, layers) {
  return layerNamed(`${world}/${style}`, world, layers);
}

/** @param {string} url of the page @param {import("./links.js").LivePlace} place @returns {string} */
export function writeLink(url, { x, z, zoom, layer }) {
  const [world, renderer] = layer.split("/").map(encodeURIComponent);
  return `${pageOf(url)}?world=${world}&renderer=${renderer}&zoom=${0 - Math.round(zoom)}&x=${x}&z=${z}`;
}
