/**
 * The conversion of places in the world and points of the grid, by the layer's projection.
 *
 * All renderers of blocks draw with parallel rays, so a layer's projection is an affine map: what each grid
 * coordinate gains for a block eastwards, upwards and southwards, and what it is at 0. A block covers the
 * coordinates from its whole number to the next, so the middle of block 0 lies at 0.5.
 *
 * @typedef {[number, number, number, number]} Row
 * @typedef {{x: Row, y: Row, height: number}} Projection `height` is where a point of the picture is taken to lie
 * @typedef {{projection: Projection | null}} Layout of a layer; null: nothing is known of its world
 * @typedef {{x: number, y: number}} GridPoint in grid units, y upwards
 * @typedef {{x: number, z: number}} Place in the world; whole numbers are the middles of blocks
 */

export const REGION = 512; // Blocks along the edge of a region file.

/** @type {Projection} A block is a grid unit. */
const ON_GRID = { x: [1, 0, 0, 0], y: [0, 0, -1, 0], height: 64 };

/**
 * @param {{x: number, y?: number, z: number}} place y is the height; the layer's usual one if not given
 * @param {Layout} layout
 * @returns {GridPoint} where the middle of that block is drawn
 */
export function worldToGrid({ x, y, z }, layout) {
  const { x: right, y: up, height } = layout.projection ?? ON_GRID;
  const at = (/** @type {Row} */ row) => row[0] * (x + 0.5) + row[1] * (y ?? height) + row[2] * (z + 0.5) + row[3];
  return { x: at(right), y: at(up) };
}

/**
 * The inverse of `worldToGrid`, to fractions of a block: the way to keep a place on the screen exactly.
 * @param {GridPoint} point
 * @param {Layout} layout
 * @param {number} [height]
 * @returns {Place}
 */
export function gridToWorld(point, layout, height) {
  const { x, z } = placeAt(point, layout, height);
  return { x: x - 0.5, z: z - 0.5 };
}

/**
 * Return the place at the usual height that is drawn at the same spot as a place at another height.
 * @param {{x: number, y?: number | null, z: number}} place @param {Layout} layout @returns {Place}
 */
export function atUsualHeight({ x, y, z }, layout) {
  return gridToWorld(worldToGrid({ x, y: y ?? undefined, z }, layout), layout);
}

/**
 * @param {GridPoint} point
 * @param {Layout} layout
 * @param {number} [height]
 * @returns {Place} whole numbers: the block at the point
 */
export function blockAt(point, layout, height) {
  const { x, z } = placeAt(point, layout, height);
  // Adding 0 turns a negative zero into the usual one.
  return { x: Math.floor(x) + 0, z: Math.floor(z) + 0 };
}

/** @param {number} x @param {number} z of a block @returns {Place} its region, of 512 x 512 blocks */
export function regionOf(x, z) {
  return { x: Math.floor(x / REGION), z: Math.floor(z / REGION) };
}

/** @param {number} x @param {number} z of a block @returns {string} its region's file: `r.-1.2.mca` */
export function regionFile(x, z) {
  const region = regionOf(x, z);
  return `r.${region.x}.${region.z}.mca`;
}

/**
 * The place at a point, counted from the edge of block 0. In the order of `Projection.place_at`, so that notices and
 * page name the same block.
 * @param {GridPoint} point @param {Layout} layout @param {number} [height] @returns {Place}
 */
export function placeAt({ x, y }, layout, height) {
  const { x: across, y: along, height: usual } = layout.projection ?? ON_GRID;
  const right = x - across[1] * (height ?? usual) - across[3];
  const up = y - along[1] * (height ?? usual) - along[3];
  const area = across[0] * along[2] - across[2] * along[0];
  return {
    x: (right * along[2] - up * across[2]) / area,
    z: (up * across[0] - right * along[0]) / area,
  };
}
