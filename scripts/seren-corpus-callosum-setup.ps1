# Sets up SerenCorpusCallosum: a virtual environment, the package, a starter configuration and, if wanted, a service.
# May be run again: it upgrades the package and keeps an existing configuration.
[CmdletBinding(PositionalBinding = $false)]
param(
    [string]$Dir = '',
    [switch]$Mcp,
    [switch]$Corp,
    [switch]$Keyring,
    [string]$From = '',
    [string]$Cert = '',
    [switch]$Service,
    [switch]$DryRun,
    [switch]$Help,
    [Parameter(ValueFromRemainingArguments = $true)]
    [string[]]$Unknown
)

$usage = @'
usage: powershell -ExecutionPolicy Bypass -File seren-corpus-callosum-setup.ps1 [options]

  -Dir DIR     where the virtual environment and the configuration go
               (default: %LOCALAPPDATA%\seren-corpus-callosum)
  -Mcp         with the MCP search tool
  -Corp        with the operating system's trust store (corporate networks)
  -Keyring     with the operating system's keychain for tokens
  -From PATH   install this wheel or checkout instead of the release on PyPI
  -Cert PATH   certificates (PEM) that pip is to trust, behind a TLS-inspecting proxy
  -Service     install the task that starts at boot (needs an elevated terminal)
  -DryRun      print what would be done and change nothing
  -Help        print this
'@

function Stop-Setup([string]$Message, [int]$Status = 1) {
    [Console]::Error.WriteLine("error: $Message")
    if ($Status -eq 2) {
        [Console]::Error.WriteLine("")
        [Console]::Error.WriteLine($usage)
    }
    exit $Status
}

function Invoke-Step([string]$Program, [string[]]$Arguments, [string]$Hint = '') {
    $words = @($Program) + $Arguments | ForEach-Object { if ($_ -match '[^\w./\\:=-]') { "'$_'" } else { $_ } }
    Write-Output ('+ ' + ($words -join ' '))
    if ($DryRun) {
        return
    }
    & $Program @Arguments
    if ($LASTEXITCODE -ne 0) {
        Stop-Setup "that ended with status $LASTEXITCODE. $Hint"
    }
}

function Test-Python([string]$Program, [string[]]$Arguments) {
    if (-not (Get-Command $Program -ErrorAction SilentlyContinue)) {
        return $false
    }
    & $Program @Arguments -c 'import sys; sys.exit(sys.version_info < (3, 11))' | Out-Null
    return $LASTEXITCODE -eq 0
}

if ($Help) {
    Write-Output $usage
    exit 0
}
if ($Unknown) {
    Stop-Setup "unknown option: $($Unknown[0])" 2
}
if ($From -and -not (Test-Path -LiteralPath $From)) {
    Stop-Setup "-From: there is no $From"
}
if ($Cert -and -not (Test-Path -LiteralPath $Cert)) {
    Stop-Setup "-Cert: there is no $Cert"
}
if (-not $Dir) {
    $Dir = Join-Path $env:LOCALAPPDATA 'seren-corpus-callosum'
}
$Dir = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($Dir)

$venv = Join-Path $Dir 'venv'
$python = Join-Path $venv 'Scripts\python.exe'
$command = Join-Path $venv 'Scripts\seren-corpus-callosum.exe'
$config = Join-Path $Dir 'seren-corpus-callosum.yaml'

$package = 'seren-corpus-callosum'
if ($From) {
    $package = (Resolve-Path -LiteralPath $From).ProviderPath
}
$extras = @()
if ($Mcp) { $extras += 'mcp' }
if ($Corp) { $extras += 'corp' }
if ($Keyring) { $extras += 'keyring' }
if ($extras.Count -gt 0) {
    $package = $package + '[' + ($extras -join ',') + ']'
}

if (Test-Python $python @()) {
    Write-Output "The virtual environment in $venv is kept."
}
else {
    $found = $null
    foreach ($candidate in @(@('py', '-3'), @('python'), @('python3'))) {
        $first = @($candidate | Select-Object -Skip 1)
        if (Test-Python $candidate[0] $first) {
            $found = $candidate[0]
            break
        }
    }
    if (-not $found) {
        Stop-Setup 'Python 3.11 or newer is needed and was not found'
    }
    Invoke-Step $found ($first + @('-m', 'venv', '--clear', $venv))
}

if ($Cert) {
    $certificates = (Resolve-Path -LiteralPath $Cert).ProviderPath
    Write-Output "+ `$env:PIP_CERT = '$certificates'"
    if (-not $DryRun) {
        $env:PIP_CERT = $certificates
    }
}
Invoke-Step $python @('-m', 'pip', 'install', '--upgrade', $package)

if (Test-Path -LiteralPath $config) {
    Write-Output "The configuration in $config is kept."
}
else {
    Invoke-Step $command @('-c', $config, 'init')
}

if ($Service) {
    Invoke-Step $command @('-c', $config, 'service', 'install') 'Is this terminal elevated?'
}
else {
    Write-Output "Start it with: & '$command' -c '$config'"
}
if ($DryRun) {
    Write-Output 'Nothing was changed.'
}
