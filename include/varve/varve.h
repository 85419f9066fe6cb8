// Everything a program needs. `namespace vv = varve;`
#pragma once

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/io.h"
#include "varve/kernel.h"
#include "varve/ops.h"
#include "varve/tensor.h"
