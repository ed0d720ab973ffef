/**
 * Zooming along x, in pixels of the plot so that it works alike on linear and logarithmic scales:
 * wheel and trackpad pinch, two fingers, and keys. (uPlot itself zooms to what is dragged over and
 * resets at a double click.)
 */

/** One chart's x scale, as the gestures see it. */
export interface Zoomable {
  /** The plot's box, which takes the gestures. */
  readonly over: HTMLElement;
  /** Shows what stands between these plot positions now. */
  show(leftPx: number, rightPx: number): void;
  reset(): void;
  isZoomed(): boolean;
}

const KEY_ZOOM = 1.5;
const KEY_PAN = 0.2;
/** Wheel notches are about 100 px; a pinch comes as a wheel of a few px. */
const WHEEL_ZOOM_PER_PX = 0.0025;

function zoomAt(chart: Zoomable, centrePx: number, factor: number): void {
  const width = chart.over.clientWidth;
  chart.show(centrePx - centrePx / factor, centrePx + (width - centrePx) / factor);
}

function pan(chart: Zoomable, byPx: number): void {
  if (chart.isZoomed()) {
    chart.show(byPx, chart.over.clientWidth + byPx);
  }
}

/**
 * Answers the wheel. A page that is scrolled past must not zoom its charts on the way, so the
 * wheel counts only where the chart was clicked before, or together with Ctrl or ⌘ (which is also
 * how a trackpad reports a pinch).
 */
export function zoomByWheel(chart: Zoomable, root: HTMLElement): void {
  const over = chart.over;
  over.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !root.contains(document.activeElement)) {
        return;
      }
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        pan(chart, event.deltaX);
        return;
      }
      const notch = event.ctrlKey ? 4 : 1;
      const left = event.clientX - over.getBoundingClientRect().left;
      zoomAt(chart, left, Math.exp(-event.deltaY * WHEEL_ZOOM_PER_PX * notch));
    },
    { passive: false },
  );
}

/** Answers two fingers that move apart or together. */
export function zoomByPinch(chart: Zoomable): void {
  const over = chart.over;
  const fingers = new Map<number, number>();
  const span = (): { from: number; to: number } | null => {
    const places = [...fingers.values()];
    return places.length === 2 ? { from: Math.min(...places), to: Math.max(...places) } : null;
  };
  const place = (event: PointerEvent) => event.clientX - over.getBoundingClientRect().left;
  const lift = (event: PointerEvent) => fingers.delete(event.pointerId);

  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") {
      fingers.set(event.pointerId, place(event));
    }
  });
  over.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) {
      return;
    }
    const before = span();
    fingers.set(event.pointerId, place(event));
    const after = span();
    if (before !== null && after !== null) {
      const factor = Math.max(after.to - after.from, 10) / Math.max(before.to - before.from, 10);
      zoomAt(chart, (after.from + after.to) / 2, factor);
    }
  });
  over.addEventListener("pointerup", lift);
  over.addEventListener("pointercancel", lift);
}

/** Answers keys on the focused chart: + − 0, arrows move the cursor, Shift and arrows the view. */
export function zoomByKeys(chart: Zoomable, root: HTMLElement, moveCursor: (by: number) => void): void {
  root.addEventListener("keydown", (event) => {
    if (event.target !== root || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const width = chart.over.clientWidth;
    const arrow = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (arrow !== 0 && event.shiftKey) {
      pan(chart, arrow * width * KEY_PAN);
    } else if (arrow !== 0) {
      moveCursor(arrow);
    } else if (event.key === "+" || event.key === "=") {
      zoomAt(chart, width / 2, KEY_ZOOM);
    } else if (event.key === "-") {
      zoomAt(chart, width / 2, 1 / KEY_ZOOM);
    } else if (event.key === "0" || event.key === "Escape") {
      chart.reset();
    } else {
      return;
    }
    event.preventDefault();
  });
}
