// Private to server/metrics: the series of one model version.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/metrics/families.h"
#include "server/metrics/metrics.h"

namespace gpupool::server {

// Makes the series. The caller must hold families->mutex.
std::shared_ptr<VersionMetrics> MakeVersionSeries(
    std::shared_ptr<MetricFamilies> families, const std::string& model,
    const std::string& version, uint64_t queue_limit);

}  // namespace gpupool::server
