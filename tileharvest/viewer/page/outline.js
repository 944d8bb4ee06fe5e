/** A map in the history: its days, its layers, and the site's descriptions of them on each day. */
import * as api from "./api.js";
import { rendererOf } from "./renderers/registry.js";

/**
 * @typedef {import("./api.js").MapOutline} MapOutline
 * @typedef {import("./api.js").Layer} Layer
 * @typedef {import("./api.js").Description} Description
 */

export class Outline {
  /** @param {string} map that was harvested at least once @returns {Promise<Outline>} as the server has it now */
  static async of(map) {
    const answer = await api.outline(map);
    return new Outline(answer, await rendererOf(answer.renderer));
  }

  /** @param {MapOutline} answer @param {import("./renderers/registry.js").Renderer} links */
  constructor(answer, links) {
    /** The links of the map's own page, and the way in which it writes places */
    this.links = links;
    this.name = answer.name;
    /** The address of the map's own page, if the map is there as far as is known */
    this.live = answer.live === false ? null : answer.url;
    /** ISO dates of harvests, oldest first */
    this.days = answer.days;
    /** Those of `days` whose harvest is not finished */
    this.unfinished = answer.unfinished;
    this.layers = answer.layers;
    /** Whether pictures of zooms without tiles of their own are composed of deeper ones */
    this.isComposed = answer.composed ?? true;
  }

  get firstDay() {
    return this.days[0];
  }

  get lastDay() {
    return this.days[this.days.length - 1];
  }

  /** @param {string | null} name @returns {Layer} the layer of that name, or the first */
  layer(name) {
    return this.layers.find((layer) => layer.name === name) ?? this.layers[0];
  }

  /**
   * The description of a layer on a day: that of the last harvest until then, or else that of the first one.
   * @param {string} layer @param {string} day
   * @returns {Description}
   */
  description(layer, day) {
    const said = this.layer(layer).descriptions;
    return said.findLast((description) => description.day <= day) ?? said[0];
  }

  /**
   * The coarsest zoom that can be shown: the one above all levels that the layer ever had. Only pictures of two by
   * two tiles are composed. If tiles nest otherwise, or nothing is composed, it is the coarsest zoom with tiles.
   * @param {string} layer
   */
  coarsest(layer) {
    const { descriptions, zooms } = this.layer(layer);
    const kept = Object.keys(zooms).map(Number);
    if (!this.#composes(layer) && kept.length > 0) return Math.min(...kept);
    return 1 - Math.max(...descriptions.map(({ depth }) => depth));
  }

  /** @param {string} layer @returns {boolean} whether a zoom can be seen from the tiles of deeper ones */
  #composes(layer) {
    return this.isComposed && this.layer(layer).descriptions.every(({ factor }) => factor === 2);
  }

  /**
   * @param {string} layer @param {number} zoom
   * @returns {string | undefined} the first day on which the layer showed something at this zoom; undefined: no day
   */
  begun(layer, zoom) {
    const shows = (/** @type {number} */ kept) => (this.#composes(layer) ? kept >= zoom : kept === zoom);
    const zooms = Object.entries(this.layer(layer).zooms);
    return zooms.filter(([kept]) => shows(Number(kept))).map(([, day]) => day).sort()[0];
  }

  /**
   * The coarsest zoom that shows something on each day on which the layer has tiles. Zooms into which a map has grown
   * have no tiles of the days before, and a page without a server composes none.
   * @param {string} layer
   */
  coarsestAtFirst(layer) {
    const zooms = Object.entries(this.layer(layer).zooms);
    if (this.isComposed || zooms.length === 0) return this.coarsest(layer);
    const first = [this.firstDay, zooms.map(([, day]) => day).sort()[0]].sort()[1];
    return Math.min(...zooms.filter(([, day]) => day <= first).map(([zoom]) => Number(zoom)));
  }

  /**
   * The deepest zoom with tiles. Some renderers never draw down to 0.
   * @param {string} layer
   */
  deepest(layer) {
    const zooms = Object.keys(this.layer(layer).zooms).map(Number);
    return zooms.length > 0 ? Math.max(...zooms) : 0;
  }

  /** @param {string} day @returns {string} the day whose harvest is shown on that day: the last one until then */
  harvested(day) {
    return this.days.findLast((harvested) => harvested <= day) ?? this.firstDay;
  }

  /** @param {string} day @returns {string} that day, or the nearest within the history */
  within(day) {
    if (day < this.firstDay) return this.firstDay;
    return day > this.lastDay ? this.lastDay : day;
  }
}
