/**
 * Plain tiles in the Mercator projection of the web: no page of their own is known, but most pages of such maps
 * end in `#zoom/latitude/longitude`, or `#map=zoom/latitude/longitude` as that of OpenStreetMap does.
 *
 * East is degrees east, and south is degrees south as the projection stretches them: 180 at the edge.
 *
 * @typedef {import("./links.js").Link} Link
 */
import { hashOf, isCoordinate } from "./links.js";

const DEGREE = Math.PI / 180;
const HALF_WORLD = 180;

/**
 * Places are written in degrees, unless a pixel of a canvas counts as a block: the earth's middle is not the grid's.
 * @param {import("../projection.js").Layout} layout
 */
export const inDegrees = ({ projection }) => projection === null || projection.x[3] > 0;

/** @param {number} south as the projection stretches it @returns {number} degrees north */
export function latitudeOf(south) {
  return Math.atan(Math.sinh(-south * DEGREE)) / DEGREE;
}

/** @param {number} latitude degrees north @returns {number} what `latitudeOf` makes them of */
export function southOf(latitude) {
  return -Math.asinh(Math.tan(latitude * DEGREE)) / DEGREE;
}

/** @param {string} text an address, or the part of it from `#` on @returns {Link | null} */
export function parseLink(text) {
  const parts = (hashOf(text) ?? "").replace(/^map=/, "").split(/[/&]/);
  const [zoom, latitude, longitude] = parts;
  if (parts.length < 3 || ![zoom, latitude, longitude].every(isCoordinate)) return null;
  if (Math.abs(Number(latitude)) > 85 || Math.abs(Number(longitude)) > HALF_WORLD) return null;
  return {
    // A place counts from the middle of its unit.
    x: Number(longitude) - 0.5, y: null, z: southOf(Number(latitude)) - 0.5,
    zoom: Number(zoom), world: null, style: null,
  };
}

/**
 * @param {Link} link @param {{projection: import("../projection.js").Projection | null}} layout
 * @returns {number | null}
 */
export function zoomOf({ zoom }, { projection }) {
  if (typeof zoom !== "number" || projection === null) return null;
  // At the deepest zoom the world is two grid units for each of its tiles wide.
  return Math.round(zoom - Math.log2(projection.x[0] * HALF_WORLD));
}

/** @param {Link} _ @param {import("./links.js").LinkedLayer[]} layers @returns {string | null} */
export function layerOf(_, layers) {
  return layers[0]?.name ?? null;
}

/** @returns {null} its address in maps.toml is that of its tiles */
export function writeLink() {
  return null;
}
