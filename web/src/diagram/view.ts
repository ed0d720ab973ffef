/** The stretch of time that diagrams beside each other show, and the places of round times on it. */

export interface Span {
  from: number;
  to: number;
}

/** Least time that can be shown, in the unit of the view. */
const LEAST_SPAN = 1;

/** A stretch of time, zoomed and moved by whoever shows it; all of them follow. */
export class TimeView {
  readonly whole: Span;
  #shown: Span;
  readonly #listeners: (() => void)[] = [];

  constructor(whole: Span, first: Span) {
    this.whole = whole;
    this.#shown = inside(first, whole);
  }

  get shown(): Span {
    return this.#shown;
  }

  isWhole(): boolean {
    return this.#shown.from === this.whole.from && this.#shown.to === this.whole.to;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  show(span: Span): void {
    this.#shown = inside(span, this.whole);
    for (const listener of this.#listeners) {
      listener();
    }
  }

  /** Moves what is shown, as far as there is something. */
  move(by: number): void {
    const { from, to } = this.#shown;
    const allowed = Math.min(Math.max(by, this.whole.from - from), this.whole.to - to);
    this.show({ from: from + allowed, to: to + allowed });
  }

  /** Moves as little as brings `span` into view. */
  reveal(span: Span): void {
    const { from, to } = this.#shown;
    if (span.from < from) {
      this.move(span.from - from);
    } else if (span.to > to) {
      this.move(Math.min(span.to - to, span.from - from));
    }
  }
}

/** `span` cut to `whole`, and no shorter than can be shown. */
function inside(span: Span, whole: Span): Span {
  const least = Math.min(LEAST_SPAN, whole.to - whole.from);
  const from = Math.min(Math.max(span.from, whole.from), whole.to - least);
  return { from, to: Math.min(Math.max(span.to, from + least), whole.to) };
}

/** Round values in a span, at most `most` of them: steps of 1, 2 or 5 times a power of ten. */
export function roundTicks({ from, to }: Span, most: number): number[] {
  const least = (to - from) / Math.max(most, 1);
  if (!(least > 0)) {
    return [];
  }
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9)) ?? 10 * power;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * step);
}
