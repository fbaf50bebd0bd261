// All functors of normalisations. (Host and device; plain C++.)
#pragma once

#include "engine/backends/portable/reduction/channel_functors.h"
#include "engine/backends/portable/reduction/layer_norm_functors.h"
#include "engine/backends/portable/reduction/softmax_functors.h"
#include "engine/backends/portable/reduction/statistics_functors.h"

#define GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, T)           \
  FOR(ChannelApplyFunctor<T>)                            \
  FOR(ChannelGradApplyFunctor<T>)                        \
  ROWS(ChannelSumFunctor<T, ChannelSum::kMoments>)       \
  ROWS(ChannelSumFunctor<T, ChannelSum::kBatchGradient>) \
  ROWS(ChannelSumFunctor<T, ChannelSum::kLayerGradient>) \
  ROWS(ChannelMapFunctor<T>)                             \
  ROWS(ChannelGradFunctor<T>)                            \
  ROWS(LayerNormFunctor<T>)                              \
  ROWS(LayerNormGradFunctor<T>)                          \
  ROWS(SoftmaxFunctor<T, false>)                         \
  ROWS(SoftmaxFunctor<T, true>)                          \
  ROWS(SoftmaxGradFunctor<T, false>)                     \
  ROWS(SoftmaxGradFunctor<T, true>)

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_NORM_FUNCTORS(FOR, ROWS)        \
  FOR(RunningFunctor)                           \
  FOR(FoldFunctor)                              \
  FOR(SpreadFunctor)                            \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, float)    \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, BFloat16) \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, Float16)  \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, double)
