#pragma once

namespace varve::bench {

extern const char* const kReportStyle;  // what the benchmark's page adds to the house's style sheet

}  // namespace varve::bench
