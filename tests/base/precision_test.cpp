#include "varve/precision.h"

#include <gtest/gtest.h>

#include "varve/error.h"

namespace varve {
namespace {

TEST(ProductType, IsATypeOrTf32) {
  const ProductType wide = f32, low = bf16;
  EXPECT_EQ(wide.dtype, f32);
  EXPECT_FALSE(wide.tf32);
  EXPECT_EQ(low.dtype, bf16);
  EXPECT_EQ(tf32.dtype, f32);
  EXPECT_NE(tf32, f32);
}

TEST(ProductType, NamesAreReadBack) {
  for (const ProductType type : {ProductType(f32), tf32, ProductType(bf16)})
    EXPECT_EQ(parse_precision(name(type)), type);
  EXPECT_THROW(parse_precision("f16"), Error);
}

}  // namespace
}  // namespace varve
