#include "bench/report/style.h"

namespace varve::bench {

const char* const kReportStyle = R"css(
html { scroll-padding-top: 3.6rem; }
main { max-width: 84rem; }
h1 { font-size: clamp(1.7rem, 4vw, 2.3rem); letter-spacing: -0.01em; }
h2 { font-size: 1.45rem; margin: 3rem 0 0.3rem; }
.places { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 0 2rem; }
.places h2 { font-size: 1.1rem; margin: 1.6rem 0 0; }
h2 small { color: var(--muted); font-weight: 400; font-size: 0.85em; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
h4 { font-size: 0.95rem; margin: 0 0 0.5rem; }
section > p, header > p { max-width: 48rem; }
.tiles { margin-top: 0.7rem; }
.tiles li { border-left-width: 5px; flex: 1 1 7rem; max-width: 16rem; min-width: 7rem; }
.tiles .ahead { border-left-color: var(--s1); }
.tiles .behind { border-left-color: var(--s2); }
nav {
  position: sticky; top: 0; z-index: 3; margin: 1.6rem calc(-1 * clamp(0.75rem, 3vw, 2.5rem)) 0;
  background: var(--page); border-bottom: 1px solid var(--line); overflow-x: auto;
}
nav ul {
  display: flex; gap: 1.2rem; list-style: none; margin: 0; padding: 0.6rem clamp(0.75rem, 3vw, 2.5rem);
  white-space: nowrap; font-size: 0.92rem;
}
a { color: var(--s1); }
nav a { text-decoration: none; color: var(--ink); text-transform: capitalize; }
nav a:hover, nav a:focus-visible { color: var(--s1); text-decoration: underline; }
figure { margin: 1.1rem 0 0; }
figcaption { font-weight: 600; margin-bottom: 0.45rem; }
.note { font-size: 0.85rem; margin-top: 0.4rem; max-width: 60rem; }
td small { color: var(--muted); font-size: 0.82em; margin-left: 0.15rem; }
th { white-space: normal; vertical-align: bottom; max-width: 14rem; }
th.w, td.w { text-align: left; }
td.w { white-space: normal; min-width: 6.5rem; max-width: 24rem; }
td.w small { display: block; margin-left: 0; }
td.k { font-weight: 600; white-space: nowrap; min-width: 0; }
td.k small { font-weight: 400; }
td.ahead { color: var(--s1); font-weight: 650; }
td.behind { color: var(--s2); font-weight: 650; }
td.theirs { color: var(--muted); font-style: italic; }
td.theirs:not(.w)::after { content: "†"; }
td.k, th.k { position: sticky; left: 0; background: var(--card); }
th.k { z-index: 1; }
td[rowspan] { vertical-align: top; }
td.absent { color: var(--muted); font-size: 0.85em; }
td a { white-space: nowrap; }
.scroll { max-height: none; }
.ratios {
  list-style: none; margin: 0; padding: 0.7rem 1rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px;
}
.ratios li {
  display: grid; grid-template-columns: 12rem minmax(8rem, 1fr) 9.5rem 14rem; gap: 0 1rem;
  align-items: center; padding: 0.22rem 0;
}
.ratios small { color: var(--muted); font-size: 0.82em; font-weight: 400; }
.ratios .what { font-weight: 600; }
.ratios .ratio { text-align: right; font-weight: 650; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ratios .verdict { color: var(--muted); font-size: 0.92rem; }
.track { position: relative; display: block; height: 1.15rem;
  background: linear-gradient(var(--muted), var(--muted)) 50% 0 / 1px 100% no-repeat; }
.track i { position: absolute; }
.track .bar { top: 0.2rem; bottom: 0.2rem; background: var(--muted); border-radius: 2px; min-width: 2px; }
.ahead .bar { background: var(--s1); }
.behind .bar { background: var(--s2); }
.ahead .ratio { color: var(--s1); }
.behind .ratio { color: var(--s2); }
.track .whisker { top: 0; bottom: 0; border: solid var(--ink); border-width: 0 1.5px; }
.track .whisker::before {
  content: ""; position: absolute; left: 0;
  right: 0; top: 50%; border-top: 1.5px solid var(--ink);
}
.axis .track {
  grid-column: 2; background: none; display: flex; justify-content: space-between;
  color: var(--muted); font-size: 0.8rem; height: auto;
}
.axis .track span { flex: 1 1 0; white-space: nowrap; }
.axis .track span:nth-child(2) { text-align: center; flex: 0 0 2rem; }
.axis .track span:last-child { text-align: right; }
.legend {
  display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; list-style: none;
  padding: 0; margin: 0.8rem 0 0.6rem; font-size: 0.92rem;
}
.legend li { display: flex; align-items: center; gap: 0.4rem; }
svg.swatch { width: 22px; height: 12px; border: 0; border-radius: 0; flex: none; }
.charts { margin-top: 0.6rem; }
.cards {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr));
  gap: 1rem; margin-top: 0.8rem;
}
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.8rem 1rem; }
.bars { list-style: none; margin: 0; padding: 0; font-size: 0.88rem; }
.bars li {
  display: grid; grid-template-columns: 7.6rem 1fr 5rem; gap: 0.6rem;
  align-items: center; padding: 0.12rem 0;
}
.bars b { text-align: right; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bars em { grid-column: 2 / -1; color: var(--muted); }
.meter {
  display: block; height: 0.75rem;
  background: color-mix(in srgb, var(--line) 55%, transparent); border-radius: 2px;
}
.meter i { display: block; height: 100%; border-radius: 2px; }
.c0 { background: var(--s1); } .c1 { background: var(--s2); } .c2 { background: var(--s3); }
.c3 { background: var(--s4); } .c4 { background: var(--s5); } .c5 { background: var(--s6); }
details { margin-top: 0.9rem; }
summary { cursor: pointer; color: var(--s1); padding: 0.25rem 0; }
.found { color: var(--muted); margin: 0.3rem 0; padding-left: 1.2rem; max-width: 48rem; }
.problems { margin-top: 1.2rem; padding: 0.8rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-left: 5px solid var(--s5); border-radius: 8px; overflow-wrap: anywhere; }
.problems ul { margin: 0.3rem 0 0; padding-left: 1.2rem; font-size: 0.9rem; }
@media (max-width: 60rem) {
  .ratios li { grid-template-columns: 1fr auto; padding: 0.45rem 0; }
  .ratios .track { grid-column: 1 / -1; grid-row: 2; }
  .ratios .verdict { grid-column: 1 / -1; }
  .ratios .axis { padding: 0; }
  th, td { padding: 0.3rem 0.55rem; }
}
@media print { nav { display: none; } details > :not(summary) { display: block; } }
)css";

}  // namespace varve::bench
