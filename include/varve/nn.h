// Layers and networks. `namespace nn = varve::nn;`
#pragma once

#include "varve/nn/combine.h"
#include "varve/nn/init.h"
#include "varve/nn/layers.h"
#include "varve/nn/module.h"
#include "varve/nn/text.h"
#include "varve/nn/volume.h"
