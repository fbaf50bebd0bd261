# Installs two components: `programs`, and `client`, the C++ client library with
# a package file, so that find_package(gpupool) makes gpupool::client.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpupool)

install(TARGETS gpupool gpupoold gpupool-worker gpupool-tokenizer COMPONENT programs)
if(TARGET gpupool_cuda)
  # The worker looks for it in ../lib, and it for libraries beside itself.
  install(PROGRAMS $<TARGET_FILE:gpupool_cuda> DESTINATION lib
    COMPONENT programs OPTIONAL)
endif()

install(TARGETS gpupool_client gpupool_tls gpupool_proto_messages
  gpupool_proto_services EXPORT gpupool COMPONENT client
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${GPUPOOL_HEADERS_DIR})
install(DIRECTORY ${CMAKE_BINARY_DIR}/proto/ DESTINATION ${GPUPOOL_HEADERS_DIR}
  COMPONENT client
  FILES_MATCHING PATTERN "*.pb.h" PATTERN "worker" EXCLUDE PATTERN "CMakeFiles" EXCLUDE)
install(EXPORT gpupool NAMESPACE gpupool:: DESTINATION ${package_dir}
  COMPONENT client)
configure_package_config_file(cmake/gpupool-config.cmake.in gpupool-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(gpupool-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gpupool-config.cmake
              ${CMAKE_BINARY_DIR}/gpupool-config-version.cmake
  DESTINATION ${package_dir} COMPONENT client)
