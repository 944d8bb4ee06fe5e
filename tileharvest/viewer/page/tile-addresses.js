/** The addresses of the pictures of a layer's tiles on any day. They are asked for in blocks of tiles, and kept. */
import * as api from "./api.js";
import { chunkOf } from "./grid.js";
import { PromiseCache } from "./promise-cache.js";

const MOST_BLOCKS = 6400; // Of 16 tiles each at most: some megabytes of addresses.

/** @param {string | null | undefined} address @returns {boolean} whether the picture lies ready on the server */
export function isStored(address) {
  return Boolean(address?.startsWith(api.imageAddress("")));
}

export class TileAddresses {
  /** @param {string} map @param {string} layer */
  constructor(map, layer) {
    this.map = map;
    this.layer = layer;
    /** By day and place. */
    this.blocks = new PromiseCache(MOST_BLOCKS);
  }

  /**
   * @param {api.Tile} tile @param {string} day
   * @returns {Promise<string | null | undefined>} null: the tile was gone; undefined: not there yet
   */
  async address(tile, day) {
    return (await this.#block(tile, day)).get(`${tile.x}_${tile.y}`);
  }

  /** Forget the addresses of a day, because its harvest goes on. @param {string} day */
  forget(day) {
    this.blocks.forget(day);
  }

  /** @param {api.Tile} tile @param {string} day */
  #block(tile, day) {
    const area = chunkOf(tile, api.BLOCK_LEVELS);
    const key = `${day} ${area.zoom} ${area.xFrom} ${area.yFrom}`;
    return this.blocks.get(key, () => api.view(this.map, this.layer, day, area));
  }
}
