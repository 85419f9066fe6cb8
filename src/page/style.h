#pragma once

namespace varve::page {

// The style sheet of every page: colours as variables, light and dark; headings, tiles, tables, charts.
extern const char* const kStyle;

}  // namespace varve::page
