// The three studies that measured: what they ran, their own figures, and their tables filled from records.
#pragma once

#include <string>
#include <vector>

#include "bench/report/facts.h"

namespace varve::bench {

struct Tool {
  std::string name;   // as in the study
  std::string today;  // why it is not measured, or as what it is
};

struct Study {
  std::string name;                     // "shatnawi2018"
  std::string citation;                 // who, what, when
  std::string asks;                     // its protocol in a sentence
  std::string machines;                 // theirs
  std::vector<std::string> found = {};  // what it concluded
  std::vector<Tool> tools = {};
  std::vector<Table> (*tables)(const Facts& facts) = nullptr;  // in the study's own layout
};
const std::vector<Study>& studies();
const Study& find_study(const std::string& name);  // Error with the nearest name

Table tools_table(const Study& study);

// ---- the layouts
std::vector<Table> shatnawi_tables(const Facts& facts);
std::vector<Table> kabakus_tables(const Facts& facts);
std::vector<Table> shi_tables(const Facts& facts);

// The threads that the studies swept.
inline const std::vector<int> kStudyThreads = {1, 2, 4, 8, 16, 32};

}  // namespace varve::bench
