// All functors of normalisations. (Host and device; plain C++.)
#pragma once

#include "engine/backends/portable/channel_functors.h"
#include "engine/backends/portable/layer_norm_functors.h"
#include "engine/backends/portable/softmax_functors.h"

#define GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, T)           \
  FOR(ChannelSumFunctor<T, ChannelSum::kMoments>)        \
  FOR(ChannelSumFunctor<T, ChannelSum::kBatchGradient>)  \
  FOR(ChannelSumFunctor<T, ChannelSum::kLayerGradient>)  \
  FOR(ChannelMapFunctor<T>)                              \
  FOR(ChannelApplyFunctor<T>)                            \
  FOR(ChannelGradFunctor<T>)                             \
  FOR(ChannelGradApplyFunctor<T>)                        \
  ROWS(ChannelSumFunctor<T, ChannelSum::kMoments>)       \
  ROWS(ChannelSumFunctor<T, ChannelSum::kBatchGradient>) \
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
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, float)    \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, BFloat16) \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, Float16)  \
  GPUPOOL_NORM_FUNCTORS_OF(FOR, ROWS, double)
