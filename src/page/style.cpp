#include "page/style.h"

namespace varve::page {

const char* const kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f4f6f9; --card: #ffffff; --ink: #1b222b; --muted: #5b6673; --line: #d8dee6; --on: #ffffff;
  --s1: #2563c9; --s2: #c2560a; --s3: #15803d; --s4: #9333b8; --s5: #b4234c; --s6: #0e7490;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1319; --card: #181e27; --ink: #e8edf3; --muted: #9aa7b5; --line: #313b48; --on: #0f1319;
    --s1: #74a9ff; --s2: #f59e55; --s3: #5fd08a; --s4: #d38bf0; --s5: #ff8aa8; --s6: #4fd0e0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 1.5rem clamp(0.75rem, 3vw, 2.5rem) 3rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 76rem; margin: 0 auto; }
h1 { font-size: 1.7rem; margin: 0 0 0.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.8rem; }
p { margin: 0.25rem 0; color: var(--muted); }
.tiles { display: flex; flex-wrap: wrap; gap: 0.75rem; margin-top: 1.2rem; padding: 0; list-style: none; }
.tiles li {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.6rem 1rem; min-width: 8rem;
}
.tiles b { display: block; font-size: 1.45rem; font-weight: 650; font-variant-numeric: tabular-nums; line-height: 1.3; }
.tiles span { color: var(--muted); font-size: 0.9rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; }
.charts svg { max-width: 36rem; }
.side { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.side > svg { flex: 1 1 22rem; }
.side > .scroll { flex: 1 1 27rem; min-width: min(100%, 27rem); }
svg { display: block; width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px; }
.scroll { overflow: auto; max-height: 42rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { color: var(--muted); font-weight: 600; position: sticky; top: 0; background: var(--card); }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 650; color: var(--s1); }
pre {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.9rem 1rem; margin: 0;
  overflow: auto; max-height: 42rem; font: 0.85rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
}
@media print { body { padding: 0; } .scroll, pre { max-height: none; } }
)css";

}  // namespace varve::page
