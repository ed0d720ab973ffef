/** Which cell the reader looks at, which layers are hidden, and whose I/Os are counted. */

import type { ReportData } from "./data";

export class Selection {
  #cell: number | null;
  #perSession = true;
  readonly #hidden = new Set<string>();
  readonly #listeners: (() => void)[] = [];
  readonly #cells: number[];

  constructor(data: ReportData) {
    this.#cells = data.cells.map((cell) => cell.cell);
    this.#cell = firstCell(data);
  }

  get cell(): number | null {
    return this.#cell;
  }

  /** Calls `listener` after every change. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  choose(cell: number): void {
    if (cell !== this.#cell && this.#cells.includes(cell)) {
      this.#cell = cell;
      this.#changed();
    }
  }

  /** Moves to the next (1) or the previous (−1) cell; stays at the ends. */
  step(by: 1 | -1): void {
    const place = this.#cells.indexOf(this.#cell ?? Number.NaN);
    const next = this.#cells[place + by];
    if (next !== undefined) {
      this.choose(next);
    }
  }

  /** Whether layers hold the mean of a session's I/Os, or those of all sessions together. */
  get perSession(): boolean {
    return this.#perSession;
  }

  countPerSession(perSession: boolean): void {
    if (perSession !== this.#perSession) {
      this.#perSession = perSession;
      this.#changed();
    }
  }

  isHidden(layer: string): boolean {
    return this.#hidden.has(layer);
  }

  toggle(layer: string): void {
    if (!this.#hidden.delete(layer)) {
      this.#hidden.add(layer);
    }
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

/** The cell to open with: the finding's, or the last that has records, or one that worked, or any. */
export function firstCell(data: ReportData): number | null {
  const told = data.cells.find((cell) => cell.cell === data.finding?.cell);
  const worked = data.cells.filter((cell) => cell.failure === null);
  const recorded = worked.filter((cell) => cell.in_flight.length > 0);
  return (told ?? recorded[recorded.length - 1] ?? worked[0] ?? data.cells[0])?.cell ?? null;
}
