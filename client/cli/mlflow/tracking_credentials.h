// Proof to an MLflow server of who the client is, and the certificates that it
// takes. The environment variables are those of MLflow's own client.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

struct TrackingCredentials {
  std::string authorization;  // header of that name; empty: none
  std::string ca_file;        // certificates to trust; empty: the system's
  bool verify_server = true;

  // Reads the environment:
  //   MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD   basic authentication
  //   MLFLOW_TRACKING_TOKEN               bearer token, unless both are set
  //   MLFLOW_TRACKING_SERVER_CERT_PATH    certificates, a PEM file
  //   MLFLOW_TRACKING_INSECURE_TLS        "true": certificates are not checked
  // Must not run while another thread changes the environment. InvalidArgument
  // if a value cannot be sent in a header, or for both of the last two.
  static absl::StatusOr<TrackingCredentials> FromEnvironment();
};

}  // namespace gpupool::client
