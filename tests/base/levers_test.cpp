// Optimisations that the environment leaves out.
#include "base/levers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <stdexcept>

#include "varve/error.h"

namespace varve {
namespace {

class Levers : public testing::Test {
 protected:
  void TearDown() override { unsetenv("VARVE_WITHOUT"); }
  void without(const char* list) { setenv("VARVE_WITHOUT", list, 1); }
};

TEST_F(Levers, AllAreOnUnlessNamed) {
  for (const Lever& l : levers()) EXPECT_TRUE(lever(l.name)) << l.name;
  without("winograd,,layouts,");
  EXPECT_FALSE(lever("winograd"));
  EXPECT_FALSE(lever("layouts"));
  EXPECT_TRUE(lever("groups"));
  without("");
  EXPECT_TRUE(lever("winograd"));
}

TEST_F(Levers, ASlipIsNotIgnored) {
  without("winogrod");
  try {
    lever("groups");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("Did you mean 'winograd'?"), std::string::npos) << e.what();
  }
}

TEST_F(Levers, ANameThatNoTableDeclaresIsAMistakeOfTheCaller) {
  try {
    lever("winogrod");
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("\"winograd\""), std::string::npos) << e.what();
  }
  without("winogrod");  // who asks wrongly is told so, whatever the user has set
  EXPECT_THROW(lever("winogrod"), std::logic_error);
}

TEST_F(Levers, EachHasOneNameAndADescription) {
  std::set<std::string> seen;
  for (const Lever& l : levers()) {
    EXPECT_TRUE(seen.insert(l.name).second) << l.name << " is declared twice";
    EXPECT_FALSE(l.doc.empty()) << l.name;
    EXPECT_EQ(l.doc.find('\n'), std::string::npos) << l.name;
  }
}

}  // namespace
}  // namespace varve
