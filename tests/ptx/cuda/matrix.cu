#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
using namespace nvcuda;
__global__ void wm(const half*a,const half*b,float*c){
 wmma::fragment<wmma::matrix_a,16,16,16,half,wmma::row_major> fa; wmma::fragment<wmma::matrix_b,16,16,16,half,wmma::col_major> fb; wmma::fragment<wmma::accumulator,16,16,16,float> fc;
 wmma::fill_fragment(fc,0.f); wmma::load_matrix_sync(fa,a,16); wmma::load_matrix_sync(fb,b,16); wmma::mma_sync(fc,fa,fb,fc); wmma::store_matrix_sync(c,fc,16,wmma::mem_row_major);
}
__global__ void wi(const signed char*a,const signed char*b,int*c){
 wmma::fragment<wmma::matrix_a,16,16,16,signed char,wmma::row_major> fa; wmma::fragment<wmma::matrix_b,16,16,16,signed char,wmma::col_major> fb; wmma::fragment<wmma::accumulator,16,16,16,int> fc;
 wmma::fill_fragment(fc,0); wmma::load_matrix_sync(fa,a,16); wmma::load_matrix_sync(fb,b,16); wmma::mma_sync(fc,fa,fb,fc,true); wmma::store_matrix_sync(c,fc,16,wmma::mem_col_major);
}
__global__ void h(half*x,half2*y,__nv_bfloat16*z,__nv_bfloat162*w,__nv_fp8_e4m3*f,__nv_fp8x2_e5m2*g,float*o){
 int i=threadIdx.x; x[i]=__hfma(x[i],x[i+1],x[i+2]); y[i]=__hfma2(y[i],y[i+1],y[i+2]); y[i]=h2exp(y[i]); x[i+9]=hsqrt(x[i]); x[i+4]=__hmax_nan(x[i],x[2]);
 z[i]=__hadd(z[i],z[i+1]); w[i]=__hfma2_relu(w[i],w[i+1],w[i+2]); z[i+3]=hlog(z[i]);
 f[i]=__nv_fp8_e4m3(o[i]); o[i+7]=float(f[i+3]); g[i]=__nv_fp8x2_e5m2(make_float2(o[1],o[2])); 
 if(__hgt(x[i],x[i+1])&&__hequ(z[i],z[i+1])) x[i]=__float2half_rz(o[i]); if(__hbgt2(y[0],y[1])) o[i]=__half2float(htanh_approx(x[1])); o[i+1]=__half22float2(y[3]).x;
 atomicAdd(y+3,y[i]); atomicAdd(z+1,z[i]); atomicAdd(w+1,w[2]); atomicAdd(x+1,x[3]); x[8]=__int2half_rn(i); o[9]=__half2int_rz(x[3]); x[5]=__habs(x[3]); z[4]=__hneg(z[3]); y[6]=__hmin2(y[1],y[2]); y[7]=__heq2(y[1],y[3]);
}
