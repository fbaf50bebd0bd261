# cmake -DROOT=... -DOUTPUT=... -P module_build_id.cmake
# Writes a source file with a digest of every header that a device module and its
# loader must agree on. The file is rewritten only when the digest changes.
file(GLOB headers ${ROOT}/engine/base/*.h ${ROOT}/engine/graph/*.h
     ${ROOT}/engine/memory/*.h ${ROOT}/engine/runtime/*.h
     ${ROOT}/engine/tensor/*.h)
list(SORT headers)
set(all "")
foreach(header ${headers})
  file(SHA256 ${header} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 GPUPOOL_MODULE_BUILD_ID "${VERSION} ${all}")
configure_file(${ROOT}/engine/runtime/module_build_id.cc.in ${OUTPUT} @ONLY)
