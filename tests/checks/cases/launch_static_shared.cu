// More static shared memory than ptxas accepts. The code comes as PTX, so that nothing refuses it earlier; nobody looks
// at the error.
// wrong: launch-failure
// right:
inline const char* ptx_of(int words) {
  static char text[1024];
  snprintf(text, sizeof text,
           ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry fill(.param .u64 out) {\n"
           ".reg .b32 %%r<4>; .reg .b64 %%rd<3>;\n.shared .align 4 .b8 s[%d];\n"
           "ld.param.u64 %%rd1, [out];\nmov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, s;\n"
           "st.shared.u32 [%%r2], %%r1;\nld.shared.u32 %%r3, [%%r2];\nst.global.u32 [%%rd1], %%r3;\nret;\n}\n",
           words * 4);
  return text;
}
void run(bool wrong) {
  int* y = device_array(1);
  cudaLibrary_t library;
  cudaKernel_t kernel;
  cudaLibraryLoadData(&library, ptx_of(wrong ? 12289 : 12288), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cudaLibraryGetKernel(&kernel, library, "fill");
  void* arguments[] = {&y};
  cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, nullptr);
  finish(y);
  cudaLibraryUnload(library);
}
