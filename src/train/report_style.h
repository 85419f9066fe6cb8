#pragma once

namespace varve::train {

// The style sheet of report_html: colours as variables, light and dark.
extern const char* const kReportStyle;

}  // namespace varve::train
