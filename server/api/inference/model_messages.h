// Fills in the protocol's messages about versions: metadata, configuration and
// statistics of served ones, state of stored ones.
//
// Pure functions.
#pragma once

#include "gpupool/v1/model.pb.h"
#include "inference/grpc_service.pb.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

// Fills in all fields but `versions`.
void FillMetadata(const ServedVersion& version,
                  inference::ModelMetadataResponse* response);

void FillConfig(const ServedVersion& version, inference::ModelConfig* config);

void FillStatistics(const ServedVersion& version,
                    inference::ModelStatistics* statistics);

// Adds the version to the index. `ready`: whether it takes requests now,
// whatever its stored state.
void FillIndex(const v1::ModelVersion& version, bool ready,
               inference::RepositoryIndexResponse::ModelIndex* index);

}  // namespace gpupool::server
