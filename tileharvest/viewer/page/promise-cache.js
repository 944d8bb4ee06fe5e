/** What was asked for, kept by its key: each question is asked once, and again if it has failed. */
export class PromiseCache {
  /** @param {number} most values that are kept. The one that was not used for longest makes room */
  constructor(most) {
    this.most = most;
    /** @type {Map<string, Promise<any>>} the one that was used last is the last */
    this.kept = new Map();
  }

  /**
   * @template T
   * @param {string} key @param {() => Promise<T>} make
   * @returns {Promise<T>} the one that is kept, or a new one
   */
  get(key, make) {
    let value = this.kept.get(key);
    this.kept.delete(key);
    if (value === undefined) {
      value = make();
      value.catch(() => this.kept.delete(key));
    }
    this.kept.set(key, value);
    if (this.kept.size > this.most) this.kept.delete(this.kept.keys().next().value ?? "");
    return value;
  }

  /** @param {string} beginning of the keys whose values are forgotten */
  forget(beginning) {
    for (const key of this.kept.keys()) if (key.startsWith(beginning)) this.kept.delete(key);
  }
}
