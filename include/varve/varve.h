// Everything a program needs. `namespace vv = varve;`
#pragma once

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/data.h"
#include "varve/distributed.h"
#include "varve/io.h"
#include "varve/kernel.h"
#include "varve/memory.h"
#include "varve/nn.h"
#include "varve/ops.h"
#include "varve/optim.h"
#include "varve/precision.h"
#include "varve/tensor.h"
#include "varve/train.h"
#include "varve/train/run.h"
#include "varve/version.h"
#include "varve/zoo.h"
