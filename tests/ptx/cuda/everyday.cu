#include <cstdio>
#include <cassert>
#include <cub/cub.cuh>
struct B{ __device__ virtual float f(float x){return x;} __device__ virtual ~B(){} }; struct D:B{ float q; __device__ float f(float x) override {return x*q;} };
__device__ __noinline__ int fib(int n){return n<2?n:fib(n-1)+fib(n-2);}
__device__ float tab[4]={1.f,2.f,3.f,4.5f}; __constant__ double ct[3]={1,2,3.25}; __managed__ int mg=7; __device__ const char* strs[2]={"ab","cde"};
extern __shared__ float dyn[]; __device__ int (*fp)(int)=fib;
__global__ void k(float*o,int n,cudaTextureObject_t t,cudaSurfaceObject_t s){
 typedef cub::BlockReduce<float,128> BR; __shared__ typename BR::TempStorage ts; typedef cub::BlockScan<int,128> BS; __shared__ typename BS::TempStorage ss; 
 float v=BR(ts).Sum(o[threadIdx.x]); int sc; BS(ss).ExclusiveSum(n+threadIdx.x,sc); o[5]=sc;
 B*b=new D; o[0]=b->f(v); delete b; o[1]=fib(n); o[2]=tab[n&3]+ct[n%3]+mg; printf("%d %f %s\n",n,v,strs[n&1]); assert(n>3);
 o[3]=tex2D<float>(t,1.5f,2.5f); float4 q=tex1Dfetch<float4>(t,n); o[4]=q.x+q.w; surf2Dwrite(v,s,4,5); surf2Dread(o+8,s,8,9); o[6]=fp(n); dyn[threadIdx.x]=v; __syncthreads(); o[7]=dyn[n]; o[10]=tex3D<float>(t,1,2,3)+texCubemap<float>(t,1,2,3)+tex2DLod<float>(t,1,2,3)+tex2DGrad<float>(t,1,2,make_float2(1,2),make_float2(2,3)); float4 tg=tex2Dgather<float4>(t,1,2,1);o[11]=tg.y;
 void*p=malloc(n); ((char*)p)[3]=5; o[12]=((char*)p)[n]; free(p); o[13]=__sinf(v)+powf(v,2.3f)+__expf(v)+erff(v)+tgammaf(v)+(float)sin((double)v)+fmodf(v,3.f)+rsqrtf(v)+cbrtf(v);
 unsigned u=n; o[14]=__popc(u)+__clz(u)+__ffs(u)+__brev(u)+__byte_perm(u,u,0x123)+__funnelshift_l(u,u,5)+__dp4a(n,n,n)+__vadd2(u,u)+__vabsdiffu4(u,u)+__vcmpgts2(u,u)+__vmaxs2(u,u)+__usad(u,u,u)+__mulhi(n,n)+__umul24(u,u)+__vimax3_s32_relu(n,n,n)+__viaddmax_s16x2(u,u,u);
 o[15]=__shfl_xor_sync(~0u,v,1)+__ballot_sync(~0u,v>1)+__any_sync(~0u,n)+__all_sync(~0u,n)+__activemask()+__match_any_sync(~0u,n)+(float)clock64();
 switch(n){case 0:o[1]=3;break;case 1:o[2]=4;break;case 2:o[9]=2;break;case 3:o[3]=o[4];break;case 4:o[8]=1;break;case 5: o[77]=2;break;case 6:o[88]=5;break; case 7: __trap();}
 atomicCAS((unsigned short*)o,1,2); atomicMax((long long*)o,5ll); atomicInc(&u,7); atomicAdd((double*)o,2.0); atomicExch_block((int*)o,3); __threadfence(); __threadfence_block(); __threadfence_system(); __nanosleep(100); __ldg(o); __ldcs(o); __stcg(o,1.f);
 __syncthreads_count(n); __syncthreads_and(n); __syncwarp();  __int128 big=(__int128)n*n; big/=3; o[20]=(float)(long long)(big>>64);
}
