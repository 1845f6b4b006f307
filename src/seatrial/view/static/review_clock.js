// How long a reviewer has had an item before them: time in which the page cannot be seen does not count.

export class Clock {
  #seen = 0;
  #since = document.hidden ? null : performance.now();

  constructor() {
    document.addEventListener("visibilitychange", () => {
      this.#seen = this.#total();
      this.#since = document.hidden ? null : performance.now();
    });
  }

  restart() {
    this.#seen = 0;
    this.#since = document.hidden ? null : performance.now();
  }

  seconds() {
    return Math.round(this.#total() / 100) / 10;
  }

  #total() {
    return this.#seen + (this.#since === null ? 0 : performance.now() - this.#since);
  }
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
