/**
 * Minecraft's coordinates and the grid's, converted as Minecraft-Overviewer's own page does
 * (`fromWorldToLatLng` and `fromLatLngToWorld` of its `util.js`).
 *
 * There a place is a fraction of the whole map, which depends on the depth. In grid units the depth cancels
 * out: with 24 pixels for a block to the side, 12 downwards, and 24 per block of height,
 *
 *     gridX = -1 + 24 (x' + z' + 1) / tileSize
 *     gridY = (12 x' - 12 z' - 24 (256 - y)) / tileSize
 *
 * where x' and z' are x and z turned by the layer's north direction.
 *
 * @typedef {{tile_size: number, north_direction: number}} Layout of a layer: `tile_size` in pixels;
 *   `north_direction` 0 upper left, 1 upper right, 2 lower right, 3 lower left
 * @typedef {{x: number, y: number}} GridPoint in grid units, y upwards
 * @typedef {{x: number, z: number}} Place in the world; whole numbers are the middles of blocks
 */

/** The height at which Overviewer takes a point of the picture to lie. */
export const HEIGHT = 64;

const CEILING = 256; // The height from which Overviewer counts downwards.
const REGION = 512; // Blocks along the edge of a region file.

/**
 * @param {{x: number, y?: number, z: number}} place y is the height, 64 if not given
 * @param {Layout} layout
 * @returns {GridPoint} where the middle of that block is drawn
 */
export function worldToGrid({ x, y = HEIGHT, z }, { tile_size, north_direction }) {
  const turned = turn(x, z, north_direction);
  return {
    x: (24 * (turned.x + turned.z + 1)) / tile_size - 1,
    y: (12 * (turned.x - turned.z) - 24 * (CEILING - y)) / tile_size,
  };
}

/**
 * The inverse of `worldToGrid`, to fractions of a block: the way to keep a place on the screen exactly.
 * @param {GridPoint} point
 * @param {Layout} layout
 * @param {number} [height]
 * @returns {Place}
 */
export function gridToWorld(point, layout, height = HEIGHT) {
  const { x, z } = unturned(point, layout, height);
  // Whole numbers are the middles of blocks in `worldToGrid`, but their edges in `unturned`.
  return turnBack(x - 0.5, z - 0.5, layout.north_direction);
}

/**
 * The block at a point: the figures that Overviewer's own page shows and writes into its links.
 * @param {GridPoint} point
 * @param {Layout} layout
 * @param {number} [height]
 * @returns {Place} whole numbers
 */
export function blockAt(point, layout, height = HEIGHT) {
  const { x, z } = unturned(point, layout, height);
  return turnBack(Math.floor(x), Math.floor(z), layout.north_direction);
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

/** @param {GridPoint} point @param {Layout} layout @param {number} height @returns {Place} still turned */
function unturned({ x, y }, { tile_size }, height) {
  const depression = CEILING - height;
  return {
    x: (tile_size * (x + 1 + 2 * y)) / 48 + depression,
    z: (tile_size * (x + 1 - 2 * y)) / 48 - depression,
  };
}

/** @param {number} x @param {number} z @param {number} north @returns {Place} */
function turn(x, z, north) {
  switch (north) {
    case 1: return { x: 15 - z, z: x };
    case 2: return { x: 15 - x, z: 15 - z };
    case 3: return { x: z, z: 15 - x };
    default: return { x, z };
  }
}

/** @param {number} x @param {number} z @param {number} north @returns {Place} what `turn` was given */
function turnBack(x, z, north) {
  switch (north) {
    case 1: return { x: z, z: 15 - x };
    case 2: return { x: 15 - x, z: 15 - z };
    case 3: return { x: 15 - z, z: x };
    default: return { x, z };
  }
}
