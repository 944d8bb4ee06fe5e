/** A map as its history has it: its days, its layers, and what the site said about them on each day. */

/**
 * @typedef {import("./api.js").MapOutline} MapOutline
 * @typedef {import("./api.js").Layer} Layer
 * @typedef {import("./api.js").Description} Description
 */

export class Outline {
  /** @param {MapOutline} answer of a map that was harvested at least once */
  constructor(answer) {
    this.name = answer.name;
    this.url = answer.url;
    /** ISO dates of harvests, oldest first */
    this.days = answer.days;
    this.layers = answer.layers;
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
   * What held for a layer on a day: what the last harvest until then said, or else the first one.
   * @param {string} layer @param {string} day
   * @returns {Description}
   */
  description(layer, day) {
    const said = this.layer(layer).descriptions;
    return said.findLast((description) => description.day <= day) ?? said[0];
  }

  /** The most levels that the layer ever had. @param {string} layer */
  depth(layer) {
    return Math.max(...this.layer(layer).descriptions.map((description) => description.depth));
  }

  /** @param {string} day @returns {string} that day, or the nearest within the history */
  within(day) {
    if (day < this.firstDay) return this.firstDay;
    return day > this.lastDay ? this.lastDay : day;
  }
}
